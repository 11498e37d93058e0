# SPDX-License-Identifier: Apache-2.0
"""A counter is read on both sides of a break, until the limit is reached: one
cause, in two frames."""
import torch
from torch import nn


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        x = x + self.calls
        torch._dynamo.graph_break()
        return x * self.calls


model = torch.compile(Counter(), backend="eager")
for _ in range(12):
    model(torch.ones(4))
