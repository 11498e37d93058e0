# SPDX-License-Identifier: Apache-2.0
"""A closure over a number, made once and passed with every call."""
import torch


@torch.compile(backend="eager")
def apply(x, activation):
    return activation(x + 1)


def scaled(slope):
    return lambda t: t * slope


half = scaled(0.5)
for _ in range(4):
    apply(torch.ones(4), half)
