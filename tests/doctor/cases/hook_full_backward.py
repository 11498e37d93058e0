# SPDX-License-Identifier: Apache-2.0
"""A full backward hook of a module inside the compiled one reads a number."""
import torch
from torch import nn

norms = []


def watch(module, grad_input, grad_output):
    norms.append(grad_output[0].norm().item())


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.second = nn.Linear(4, 2)

    def forward(self, x):
        x = self.first(x).relu()
        return self.second(x)


net = Net()
net.first.register_full_backward_hook(watch)
model = torch.compile(net, backend="eager")
for _ in range(2):
    model(torch.ones(3, 4)).sum().backward()
