# SPDX-License-Identifier: Apache-2.0
"""A TorchScript module inside a compiled one."""
import torch
from torch import nn


class Gelu(nn.Module):
    def forward(self, x):
        return x * torch.sigmoid(1.702 * x)


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(4, 8)
        self.act = torch.jit.script(Gelu())
        self.down = nn.Linear(8, 4)

    def forward(self, x):
        hidden = self.up(x)
        hidden = self.act(hidden)
        return self.down(hidden)


torch.manual_seed(0)
mlp = torch.compile(Mlp(), backend="aot_eager")
with torch.no_grad():
    for _ in range(3):
        mlp(torch.randn(2, 4))
