# SPDX-License-Identifier: Apache-2.0
"""A coroutine is compiled: its body runs in the event loop, and eagerly."""
import asyncio

import torch


@torch.compile(backend="eager")
async def scaled(x):
    await asyncio.sleep(0)
    return x * 2 + 1


async def main():
    for _ in range(3):
        await scaled(torch.ones(4))


asyncio.run(main())
