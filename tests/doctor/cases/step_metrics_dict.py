# SPDX-License-Identifier: Apache-2.0
"""Metrics for a dashboard are gathered as floats on every step."""
import torch
from torch import nn


class Metered(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(4, 1)

    def forward(self, x, y):
        error = self.net(x) - y
        metrics = {
            "mae": float(error.abs().mean()),
            "mse": float(error.square().mean()),
        }
        return error.square().sum(), metrics


torch.manual_seed(0)
metered = torch.compile(Metered(), backend="aot_eager")
for _ in range(3):
    metered(torch.ones(2, 4), torch.ones(2, 1))
