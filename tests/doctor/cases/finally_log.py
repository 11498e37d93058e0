# SPDX-License-Identifier: Apache-2.0
"""A break in a `finally` block."""
import torch

seen = {}


@torch.compile(backend="eager")
def observed(x):
    y = x.sin()
    try:
        z = y * 2
    finally:
        seen["max"] = y.max().item()
    return z


for _ in range(2):
    observed(torch.ones(4))
