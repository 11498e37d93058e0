# SPDX-License-Identifier: Apache-2.0
"""A break under a context manager of the user's."""
import contextlib

import torch

depth = []


@contextlib.contextmanager
def scope(name):
    depth.append(name)
    try:
        yield
    finally:
        depth.pop()


@torch.compile(backend="eager")
def run(x):
    y = x + 1
    with scope("attention"):
        z = y * y.max().item()
    return z - 1


for _ in range(3):
    run(torch.ones(4))
