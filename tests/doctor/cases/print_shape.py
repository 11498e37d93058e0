# SPDX-License-Identifier: Apache-2.0
"""A debugging print of a tensor left in a block."""
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(8)
        self.proj = nn.Linear(8, 8)

    def forward(self, x):
        x = self.norm(x)
        print("after norm", x.mean())
        return self.proj(x)


torch.manual_seed(0)
block = torch.compile(Block(), backend="aot_eager")
for _ in range(2):
    block(torch.randn(2, 8))
