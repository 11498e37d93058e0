# SPDX-License-Identifier: Apache-2.0
"""One helper that breaks, called for every layer: one root, many hits."""
import torch
from torch import nn


def checked(x):
    torch._dynamo.graph_break()
    return x


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)

    def forward(self, x):
        return checked(self.proj(x)).relu()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = Layer(), Layer(), Layer()

    def forward(self, x):
        return self.c(self.b(self.a(x)))


torch.manual_seed(0)
net = torch.compile(Net(), backend="eager")
with torch.no_grad():
    for _ in range(3):
        net(torch.ones(2, 4))
