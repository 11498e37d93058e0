# SPDX-License-Identifier: Apache-2.0
"""A backward pre-hook of a module clips what flows into it."""
import torch
from torch import nn


def clip(module, grad_output):
    return tuple(g.clamp(-1, 1) for g in grad_output)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 4)

    def forward(self, x):
        return self.body(x).relu()


net = Net()
net.body.register_full_backward_pre_hook(clip)
model = torch.compile(net, backend="eager")
for _ in range(2):
    model(torch.ones(3, 4)).sum().backward()
