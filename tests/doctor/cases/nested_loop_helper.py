# SPDX-License-Identifier: Apache-2.0
"""A helper that breaks is called from a loop of another function."""
import torch
from torch import nn


def clip(x):
    limit = x.abs().amax().item()
    return x.clamp(max=limit)


class Stack(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(2))

    def forward(self, x):
        for layer in self.layers:
            x = clip(layer(x))
        return x


torch.manual_seed(0)
stack = torch.compile(Stack(), backend="eager")
x = torch.ones(2, 4)
with torch.no_grad():
    for _ in range(3):
        stack(x)
