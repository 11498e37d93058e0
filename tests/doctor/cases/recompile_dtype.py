# SPDX-License-Identifier: Apache-2.0
"""Batches that alternate between two types."""
import torch
from torch import nn


class Mean(nn.Module):
    def forward(self, x):
        centred = x - x.mean(-1, keepdim=True)
        return centred.square()


model = torch.compile(Mean(), backend="eager")
for dtype in (torch.float32, torch.float64, torch.bfloat16):
    model(torch.ones(2, 4, dtype=dtype))
