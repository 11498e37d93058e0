# SPDX-License-Identifier: Apache-2.0
"""Gradients of an activation are kept for inspection."""
import torch
from torch import nn


class Probe(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.second = nn.Linear(4, 1)

    def forward(self, x):
        hidden = self.first(x).relu()
        hidden.retain_grad()
        return self.second(hidden).sum()


torch.manual_seed(0)
probe = torch.compile(Probe(), backend="aot_eager")
for _ in range(3):
    probe(torch.randn(2, 4)).backward()
