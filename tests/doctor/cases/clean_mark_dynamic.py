# SPDX-License-Identifier: Apache-2.0
"""Sizes declared dynamic from the start."""
import torch


@torch.compile(backend="eager")
def double(x):
    return x * 2


for batch in (4, 5, 6, 7):
    x = torch.ones(batch, 3)
    torch._dynamo.mark_dynamic(x, 0)
    double(x)
