# SPDX-License-Identifier: Apache-2.0
"""A shape error in the model itself, after a break."""
import torch
from torch import nn


class Broken(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.second = nn.Linear(5, 4)

    def forward(self, x):
        x = self.first(x)
        torch._dynamo.graph_break()
        return self.second(x)


torch.manual_seed(0)
model = torch.compile(Broken(), backend="eager")
model(torch.ones(2, 4))
