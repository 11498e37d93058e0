# SPDX-License-Identifier: Apache-2.0
"""A plain training step."""
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 1))
compiled = torch.compile(net, backend="aot_eager")
for _ in range(3):
    compiled(torch.randn(2, 4)).square().mean().backward()
    net.zero_grad()
