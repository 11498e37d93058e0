# SPDX-License-Identifier: Apache-2.0
"""A linear layer: Inductor calls an external matrix product."""
import torch
from torch import nn


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4, 8))
        self.bias = nn.Parameter(torch.zeros(4))

    def forward(self, x):
        return nn.functional.linear(x, self.weight, self.bias)


head = torch.compile(Head())
with torch.no_grad():
    for _ in range(3):
        head(torch.ones(2, 8))
