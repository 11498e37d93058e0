# SPDX-License-Identifier: Apache-2.0
"""A branch on the value of a tensor."""
import torch


@torch.compile(backend="eager")
def gate(x):
    y = x * 2
    if y.sum() > 0:
        return y + 1
    return y - 1


for _ in range(3):
    gate(torch.ones(4))
    gate(-torch.ones(4))
