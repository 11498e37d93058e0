# SPDX-License-Identifier: Apache-2.0
"""A progress print in the loop over layers: nothing is compiled."""
import torch
from torch import nn


class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x).relu()
            print("norm", x.norm())
        return x


torch.manual_seed(0)
deep = torch.compile(Deep(), backend="eager")
with torch.no_grad():
    deep(torch.ones(2, 4))
    deep(torch.ones(2, 4))
