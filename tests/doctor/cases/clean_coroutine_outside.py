# SPDX-License-Identifier: Apache-2.0
"""A coroutine calls what is compiled."""
import asyncio

import torch


@torch.compile(backend="eager")
def step(x):
    return x.sin() + 1


async def serve():
    x = torch.ones(4)
    for _ in range(3):
        x = step(x)
        await asyncio.sleep(0)
    return x


asyncio.run(serve())
