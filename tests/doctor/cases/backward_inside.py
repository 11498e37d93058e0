# SPDX-License-Identifier: Apache-2.0
"""A whole training step in one compiled function."""
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(4, 1)


@torch.compile(backend="aot_eager")
def train_step(x, y):
    loss = (net(x) - y).square().mean()
    loss.backward()
    return loss.detach() * 1


for _ in range(3):
    train_step(torch.randn(2, 4), torch.randn(2, 1))
    net.zero_grad()
