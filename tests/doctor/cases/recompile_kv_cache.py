# SPDX-License-Identifier: Apache-2.0
"""Decoding with a position that is an attribute of the cache object."""
import torch
from torch import nn


class Cache:
    def __init__(self):
        self.keys = torch.zeros(16, 4)
        self.position = 0


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.key = nn.Linear(4, 4)

    def forward(self, x, cache):
        position = cache.position
        if position % 2 == 0:
            x = x + 1
        score = cache.keys @ self.key(x).t()
        cache.position = position + 1
        return score.softmax(0)


torch.manual_seed(0)
decoder = torch.compile(Decoder(), backend="aot_eager", dynamic=False)
cache = Cache()
with torch.no_grad():
    for _ in range(4):
        decoder(torch.ones(1, 4), cache)
