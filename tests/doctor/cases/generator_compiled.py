# SPDX-License-Identifier: Apache-2.0
"""A compiled function that is itself a generator."""
import torch


@torch.compile(backend="eager")
def windows(x):
    for i in range(2):
        y = x[i:i + 2] * 2
        yield y + 1


for _ in range(3):
    sum(w.sum() for w in windows(torch.ones(4)))
