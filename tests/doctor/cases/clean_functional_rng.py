# SPDX-License-Identifier: Apache-2.0
"""Dropout and noise under a seed."""
import torch
from torch import nn


class Noisy(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.5)

    def forward(self, x):
        return self.drop(x) + torch.randn_like(x)


torch.manual_seed(0)
model = torch.compile(Noisy(), backend="aot_eager")
for _ in range(3):
    model(torch.ones(8))
