# SPDX-License-Identifier: Apache-2.0
"""A tensor hook that prints, met when the backward is traced."""
import torch
from torch import nn

torch._dynamo.config.compiled_autograd = True


def show(grad):
    print("grad", grad.norm())
    return grad


torch.manual_seed(0)
net = nn.Linear(4, 4)
net.weight.register_hook(show)


@torch.compile(backend="eager")
def train(x):
    loss = net(x).sum()
    loss.backward()


for _ in range(2):
    net.zero_grad()
    train(torch.ones(2, 4))
