# SPDX-License-Identifier: Apache-2.0
"""Candidates are sorted by a key that is a tensor."""
import torch


@torch.compile(backend="eager")
def best(x):
    rows = list((x * 2).unbind())
    rows = sorted(rows, key=lambda r: r.sum())
    return rows[-1] + 1


for _ in range(3):
    best(torch.arange(6.0).view(3, 2))
