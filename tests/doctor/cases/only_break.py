# SPDX-License-Identifier: Apache-2.0
"""A compiled function that holds nothing but a value read: no graph."""
import torch


@torch.compile(backend="eager")
def value_of(x):
    return x.item()


for _ in range(3):
    value_of(torch.tensor(2.0))
