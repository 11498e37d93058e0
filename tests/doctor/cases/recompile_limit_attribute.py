# SPDX-License-Identifier: Apache-2.0
"""A counter that recompiles until the limit: the frame then runs eagerly."""
import torch
from torch import nn


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return (x + self.calls).relu()


model = torch.compile(Counter(), backend="eager")
for _ in range(12):
    model(torch.ones(4))
