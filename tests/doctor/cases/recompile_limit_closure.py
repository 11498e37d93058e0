# SPDX-License-Identifier: Apache-2.0
"""A closure over a number is made anew for each call, until the limit."""
import torch


@torch.compile(backend="eager")
def apply(x, activation):
    y = x + 1
    return activation(y)


def scaled(slope):
    return lambda t: t * slope


for step in range(12):
    apply(torch.ones(4), scaled(step / 8))
