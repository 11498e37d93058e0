# SPDX-License-Identifier: Apache-2.0
"""Chunks come from an asynchronous generator that is compiled."""
import asyncio

import torch


@torch.compile(backend="eager")
async def chunks(x):
    for part in x.chunk(2):
        yield part * 2


async def main():
    return [chunk async for chunk in chunks(torch.ones(4))]


asyncio.run(main())
