# SPDX-License-Identifier: Apache-2.0
"""A Python object reaches an operator that wants numbers."""
import torch


class Size:
    def __init__(self, n):
        self.n = n

    def __index__(self):
        return self.n


@torch.compile(backend="eager")
def grow(x, size):
    y = x * 2
    return y.sum() + torch.zeros(size)


for _ in range(3):
    grow(torch.ones(4), Size(3))
