# SPDX-License-Identifier: Apache-2.0
"""The break comes before any tensor operation."""
import torch
from torch import nn


class Scaled(nn.Module):
    def forward(self, x, scale):
        factor = scale.item()
        return x * factor


scaled = torch.compile(Scaled(), backend="eager")
for _ in range(3):
    scaled(torch.ones(4), torch.tensor(2.0))
