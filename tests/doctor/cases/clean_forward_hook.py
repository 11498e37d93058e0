# SPDX-License-Identifier: Apache-2.0
"""A forward hook that scales is traced with the module."""
import torch
from torch import nn

net = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
net[0].register_forward_hook(lambda module, args, out: out * 0.5)
model = torch.compile(net, backend="eager")
with torch.no_grad():
    for _ in range(3):
        model(torch.ones(2, 4))
