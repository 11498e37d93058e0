# SPDX-License-Identifier: Apache-2.0
"""A coroutine is compiled, and nobody calls it."""
import torch


@torch.compile(backend="eager")
async def unused(x):
    return x * 2


@torch.compile(backend="eager")
def used(x):
    return x * 2


for _ in range(2):
    used(torch.ones(4))
