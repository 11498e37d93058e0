#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A mixture of experts around an opaque kernel: "Attempted to call function
marked as skipped". `opgraft doctor --apply moe.patch moe.py` mends it."""

import build

build.extension("moe_kernel", "kernel.c")

import moe_kernel  # noqa: E402
import torch  # noqa: E402
from torch import nn  # noqa: E402


class Experts(nn.Module):
    def __init__(self, width: int, count: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.router = nn.Linear(width, count)
        self.weight = nn.Parameter(torch.randn(count, width, width) / width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(x)
        choice = self.router(y).argmax(-1)
        z = moe_kernel.experts(y, self.weight, choice)
        return x + z.relu() * 0.5


torch.manual_seed(0)
layer = torch.compile(Experts(32, 4), backend="aot_eager")
with torch.no_grad():
    for rows in (8, 8, 12):
        print(layer(torch.randn(rows, 32)).sum().item())
