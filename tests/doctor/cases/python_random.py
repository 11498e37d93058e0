# SPDX-License-Identifier: Apache-2.0
"""Python's own random numbers decide which layer is dropped."""
import random

import torch
from torch import nn


class StochasticDepth(nn.Module):
    def __init__(self):
        super().__init__()
        self.random = random.Random(0)
        self.proj = nn.Linear(4, 4)

    def forward(self, x):
        y = self.proj(x)
        keep = self.random.betavariate(2, 2)
        return x + y * keep


torch.manual_seed(0)
model = torch.compile(StochasticDepth(), backend="aot_eager")
for _ in range(3):
    model(torch.ones(2, 4))
