# SPDX-License-Identifier: Apache-2.0
"""Two files with one break each, under one forward."""
import torch
from torch import nn
from two_roots_lib.norm import normalize
from two_roots_lib.router import route


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)

    def forward(self, x):
        x = normalize(self.proj(x))
        return route(x) + 1


torch.manual_seed(0)
model = torch.compile(Model(), backend="eager")
with torch.no_grad():
    for _ in range(3):
        model(torch.randn(2, 4))
