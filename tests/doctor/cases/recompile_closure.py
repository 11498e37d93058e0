# SPDX-License-Identifier: Apache-2.0
"""A new function object is made and passed on every call."""
import torch


@torch.compile(backend="eager")
def apply(x, activation):
    y = x + 1
    return activation(y)


for slope in (0.1, 0.2, 0.3):
    apply(torch.ones(4), lambda t, s=slope: t * s)
