# SPDX-License-Identifier: Apache-2.0
"""One break three calls deep: one root, although every caller splits."""
import torch


def scale_of(x):
    return x.abs().max().item()


def normalize(x):
    y = x + 0.5
    return y / scale_of(y)


def block(x):
    y = x.relu()
    return normalize(y) * 2


@torch.compile(backend="eager")
def model(x):
    y = x - 1
    return block(y) + 3


for _ in range(3):
    model(torch.ones(4))
