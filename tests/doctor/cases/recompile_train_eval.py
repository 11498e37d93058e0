# SPDX-License-Identifier: Apache-2.0
"""A dropout block that is switched between training and evaluation."""
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)

    def forward(self, x):
        y = self.proj(x)
        if self.training:
            y = y * 0.9
        return y.relu()


torch.manual_seed(0)
block = Block()
compiled = torch.compile(block, backend="aot_eager")
for _ in range(2):
    block.train()
    compiled(torch.ones(2, 4))
    block.eval()
    compiled(torch.ones(2, 4))
