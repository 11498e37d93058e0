# SPDX-License-Identifier: Apache-2.0
"""A Python loop over layers with an index into a tensor is unrolled."""
import torch
from torch import nn


class Stack(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))
        self.gain = nn.Parameter(torch.ones(3))

    def forward(self, x):
        for i, layer in enumerate(self.layers):
            x = x + self.gain[i:i + 1] * layer(x)
        return x


torch.manual_seed(0)
stack = torch.compile(Stack(), backend="aot_eager")
for _ in range(3):
    stack(torch.randn(2, 4))
