# SPDX-License-Identifier: Apache-2.0
"""The same function on vectors and on matrices."""
import torch


@torch.compile(backend="eager")
def scale(x):
    return x / x.abs().sum()


for shape in ((4,), (4, 4), (2, 2, 2)):
    scale(torch.ones(shape))
