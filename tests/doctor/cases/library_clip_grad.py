# SPDX-License-Identifier: Apache-2.0
"""Gradient norms are checked by a library function that reads a value."""
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(4, 4)


@torch.compile(backend="eager")
def clipped(scale):
    scale = scale * 1
    total = nn.utils.clip_grad_norm_(net.parameters(), 1.0, error_if_nonfinite=True)
    return total * scale


net(torch.ones(2, 4)).sum().backward()
for _ in range(3):
    clipped(torch.ones(1))
