# SPDX-License-Identifier: Apache-2.0
"""Shapes were declared static, and yet every batch has another length."""
import torch
from torch import nn


class Positional(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.zeros(32, 4))

    def forward(self, x):
        y = x + self.table[:x.shape[1]]
        return y.relu()


model = torch.compile(Positional(), backend="aot_eager", dynamic=False)
for length in (5, 6, 7, 8):
    model(torch.ones(2, length, 4))
