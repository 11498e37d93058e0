# SPDX-License-Identifier: Apache-2.0
"""Noise from a private generator."""
import torch
from torch import nn


class Diffuse(nn.Module):
    def __init__(self):
        super().__init__()
        self.generator = torch.Generator().manual_seed(0)

    def forward(self, x):
        y = x * 0.9
        self.generator.manual_seed(1)
        return y + torch.rand(4) * 0.1


model = torch.compile(Diffuse(), backend="eager")
for _ in range(3):
    model(torch.ones(4))
