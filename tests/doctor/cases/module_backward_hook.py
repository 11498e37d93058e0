# SPDX-License-Identifier: Apache-2.0
"""A full backward hook on a submodule."""
import torch
from torch import nn


def clip(module, grad_input, grad_output):
    return tuple(None if g is None else g.clamp(-1, 1) for g in grad_input)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.second = nn.Linear(4, 4)
        self.second.register_full_backward_hook(clip)

    def forward(self, x):
        return self.second(self.first(x).relu())


torch.manual_seed(0)
net = torch.compile(Net(), backend="aot_eager")
for _ in range(3):
    net(torch.randn(2, 4)).sum().backward()
