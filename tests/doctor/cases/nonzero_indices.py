# SPDX-License-Identifier: Apache-2.0
"""The number of selected rows depends on the data."""
import torch


@torch.compile(backend="eager")
def select(x):
    score = x.sum(-1)
    index = torch.nonzero(score > 0)
    return x[index[:, 0]] * 2


for _ in range(3):
    select(torch.ones(4, 3))
