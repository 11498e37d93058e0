# SPDX-License-Identifier: Apache-2.0
"""Layers that stop when the hidden state has converged."""
import torch
from torch import nn


class EarlyExit(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.second = nn.Linear(8, 8)
        self.threshold = 1e6

    def forward(self, x):
        hidden = self.first(x)
        confident = hidden.softmax(-1).amax() > self.threshold
        if confident:
            return hidden
        return self.second(hidden)


torch.manual_seed(0)
model = torch.compile(EarlyExit(), backend="aot_eager")
for _ in range(3):
    model(torch.randn(2, 8))
