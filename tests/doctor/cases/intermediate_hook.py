# SPDX-License-Identifier: Apache-2.0
"""A hook on an intermediate activation, as in gradient inspection."""
import torch
from torch import nn

seen = {}


def remember(grad):
    seen["norm"] = grad.norm()


class Inspected(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)

    def forward(self, x):
        hidden = self.proj(x).relu()
        hidden.register_hook(remember)
        return hidden.sum()


torch.manual_seed(0)
model = torch.compile(Inspected(), backend="aot_eager")
for _ in range(3):
    model(torch.randn(2, 4)).backward()
