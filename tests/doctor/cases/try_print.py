# SPDX-License-Identifier: Apache-2.0
"""A break inside `try`: the frame is skipped whole."""
import torch


@torch.compile(backend="eager")
def guarded(x):
    y = x.sin()
    try:
        scale = y.sum().item()
    except RuntimeError:
        scale = 1.0
    return y * scale


for _ in range(3):
    guarded(torch.ones(4))
