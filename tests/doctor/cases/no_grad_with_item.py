# SPDX-License-Identifier: Apache-2.0
"""A break under torch.no_grad(), which Dynamo can leave and enter again."""
import torch
from torch import nn


class Ema(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, x):
        y = x * 2
        with torch.no_grad():
            rate = x.abs().mean().item()
            self.mean.lerp_(x.mean(0), min(rate, 0.1))
        return y - self.mean


ema = torch.compile(Ema(), backend="aot_eager")
for _ in range(3):
    ema(torch.ones(2, 4))
