# SPDX-License-Identifier: Apache-2.0
"""An int attribute that stays as it is."""
import torch
from torch import nn


class Repeat(nn.Module):
    def __init__(self):
        super().__init__()
        self.times = 3

    def forward(self, x):
        for _ in range(self.times):
            x = x * 2
        return x


model = torch.compile(Repeat(), backend="eager")
for _ in range(4):
    model(torch.ones(4))
