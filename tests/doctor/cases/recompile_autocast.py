# SPDX-License-Identifier: Apache-2.0
"""Evaluation runs under autocast, training does not."""
import torch
from torch import nn

layer = nn.Linear(4, 4)


@torch.compile(backend="eager")
def step(x):
    return layer(x).relu()


x = torch.ones(2, 4)
with torch.no_grad():
    step(x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        step(x)
