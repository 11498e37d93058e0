# SPDX-License-Identifier: Apache-2.0
"""A forward hook that prints statistics."""
import torch
from torch import nn


def show(module, args, output):
    print("mean", output.mean())


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.second = nn.Linear(4, 4)
        self.first.register_forward_hook(show)

    def forward(self, x):
        return self.second(self.first(x))


torch.manual_seed(0)
net = torch.compile(Net(), backend="eager")
with torch.no_grad():
    for _ in range(2):
        net(torch.ones(2, 4))
