# SPDX-License-Identifier: Apache-2.0
"""Candidates are sorted by a score that is a tensor."""
import torch


@torch.compile(backend="eager")
def best(x, candidates):
    ranked = sorted(candidates, key=lambda c: (x * c).sum())
    return x + ranked[-1]


for _ in range(2):
    best(torch.ones(4), [torch.full((4,), float(v)) for v in (3, 1, 2)])
