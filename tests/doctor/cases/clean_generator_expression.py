# SPDX-License-Identifier: Apache-2.0
"""Generators and comprehensions over Python data."""
import torch


def halves(x):
    for part in x.chunk(2):
        yield part * 2


@torch.compile(backend="eager")
def reduce(x):
    return sum(h.sum() for h in halves(x)) + max(i for i in range(4))


for _ in range(3):
    reduce(torch.ones(4))
