# SPDX-License-Identifier: Apache-2.0
"""A service compiles its asynchronous method."""
import asyncio

import torch
from torch import nn


class Service(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(4, 2)

    async def answer(self, x):
        await asyncio.sleep(0)
        return self.head(x).softmax(-1)


service = Service()
answer = torch.compile(service.answer, backend="eager")


async def serve():
    with torch.no_grad():
        return await asyncio.gather(*(answer(torch.ones(2, 4))
                                      for _ in range(3)))


asyncio.run(serve())
