# SPDX-License-Identifier: Apache-2.0
"""A VQ codebook that restarts dead codes by looking at counts."""
import torch
from torch import nn


class Codebook(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("codes", torch.randn(4, 2))
        self.register_buffer("usage", torch.ones(4))

    def forward(self, x):
        distance = (x[:, None] - self.codes).square().sum(-1)
        index = distance.argmin(-1)
        self.usage.mul_(0.9).scatter_add_(0, index, torch.ones(len(x)))
        dead = self.usage < 0.1
        if dead.any():
            self.codes[dead] = x[:1]
        return self.codes[index]


torch.manual_seed(0)
codebook = torch.compile(Codebook(), backend="eager")
for _ in range(3):
    codebook(torch.randn(6, 2))
