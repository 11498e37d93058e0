# SPDX-License-Identifier: Apache-2.0
"""A step counter on the module is a constant of the graph."""
import torch
from torch import nn


class Warmup(nn.Module):
    def __init__(self):
        super().__init__()
        self.step = 0

    def forward(self, x):
        self.step += 1
        return x * min(1.0, self.step / 10)


model = torch.compile(Warmup(), backend="eager")
for _ in range(5):
    model(torch.ones(4))
