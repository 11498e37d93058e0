# SPDX-License-Identifier: Apache-2.0
"""A cache that grows by one entry a call."""
import torch
from torch import nn


class Cache(nn.Module):
    def __init__(self):
        super().__init__()
        self.keys = []

    def forward(self, x):
        self.keys.append(x * 2)
        return torch.cat(self.keys).sum()


model = torch.compile(Cache(), backend="eager")
for _ in range(4):
    model(torch.ones(1, 4))
