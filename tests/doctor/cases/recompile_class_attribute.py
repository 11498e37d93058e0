# SPDX-License-Identifier: Apache-2.0
"""A setting of a class is changed between calls."""
import torch


class Config:
    width = 2


@torch.compile(backend="eager")
def widened(x):
    return x.repeat(Config.width)


for width in (2, 3, 4):
    Config.width = width
    widened(torch.ones(4))
