# SPDX-License-Identifier: Apache-2.0
"""The expert loop of a mixture of experts: nothing of it is compiled."""
import torch
from torch import nn


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.router = nn.Linear(4, 3)
        self.experts = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))

    def forward(self, x):
        choice = self.router(x).argmax(-1)
        out = torch.zeros_like(x)
        for index, expert in enumerate(self.experts):
            rows = torch.where(choice == index)[0]
            out.index_add_(0, rows, expert(x[rows]))
        return out


torch.manual_seed(0)
moe = torch.compile(Experts(), backend="aot_eager")
with torch.no_grad():
    for _ in range(3):
        moe(torch.randn(6, 4))
