# SPDX-License-Identifier: Apache-2.0
"""A custom operator changes two overlapping views: each becomes a copy."""
import torch


@torch.library.custom_op("doctor_copy::bump", mutates_args=("a", "b"))
def bump(a: torch.Tensor, b: torch.Tensor) -> None:
    a.add_(1)
    b.add_(1)


@torch.compile
def shift(x):
    y = x * 2
    bump(y[0:3], y[1:4])
    return y + 1


with torch.no_grad():
    for _ in range(3):
        shift(torch.ones(4, 4))
