# SPDX-License-Identifier: Apache-2.0
"""A break in the body of a generator."""
import torch


def chunks(x, sizes):
    begin = 0
    for size in sizes:
        length = size.item()
        yield x[begin:begin + length]
        begin += length


@torch.compile(backend="eager")
def total(x, sizes):
    y = x * 2
    return sum(c.sum() for c in chunks(y, sizes))


for _ in range(3):
    total(torch.ones(5), torch.tensor([2, 3]))
