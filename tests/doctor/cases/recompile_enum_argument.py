# SPDX-License-Identifier: Apache-2.0
"""A mode that is an enumeration changes between calls."""
import enum

import torch


class Mode(enum.Enum):
    SUM = 1
    MEAN = 2
    MAX = 3


@torch.compile(backend="eager")
def pool(x, mode):
    if mode is Mode.SUM:
        return x.sum(0)
    if mode is Mode.MEAN:
        return x.mean(0)
    return x.amax(0)


for mode in Mode:
    pool(torch.ones(4, 3), mode)
