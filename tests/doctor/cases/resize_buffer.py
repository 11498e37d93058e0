# SPDX-License-Identifier: Apache-2.0
"""A scratch buffer is resized in place."""
import torch


@torch.compile(backend="eager")
def pack(x):
    scratch = x * 2
    scratch.resize_(8)
    return x + 1


for _ in range(3):
    pack(torch.ones(4))
