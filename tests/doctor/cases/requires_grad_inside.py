# SPDX-License-Identifier: Apache-2.0
"""A penalty that differentiates by an intermediate."""
import torch


@torch.compile(backend="aot_eager")
def penalty(x):
    y = x * 2
    y.requires_grad_(True)
    return (y.square()).sum()


for _ in range(3):
    penalty(torch.ones(4)).backward()
