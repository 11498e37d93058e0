# SPDX-License-Identifier: Apache-2.0
"""Three unrelated breaks in one frame."""
import zlib

import torch


@torch.compile(backend="eager")
def f(x):
    y = x.sin()
    name = zlib.crc32(b"three")
    y = y * y.sum().item()
    y = y.cos()
    torch._dynamo.graph_break()
    return y + name % 3


for _ in range(3):
    f(torch.ones(4))
