# SPDX-License-Identifier: Apache-2.0
"""A branch on data, written as torch.cond."""
import torch


@torch.compile(backend="eager")
def gate(x):
    return torch.cond(x.sum() > 0, lambda t: t + 1, lambda t: t - 1, (x,))


for sign in (1.0, -1.0, 1.0):
    gate(torch.full((4,), sign))
