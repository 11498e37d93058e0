# SPDX-License-Identifier: Apache-2.0
"""A context manager of the user's that only does Python work."""
import contextlib

import torch

trace = {"depth": 0}


@contextlib.contextmanager
def scope():
    trace["depth"] = 1
    try:
        yield
    finally:
        trace["depth"] = 0


@torch.compile(backend="eager")
def run(x):
    with scope():
        return x * 2


for _ in range(3):
    run(torch.ones(4))
