# SPDX-License-Identifier: Apache-2.0
"""A forgotten explicit graph break."""
import torch


@torch.compile(backend="eager")
def f(x):
    y = x.sin()
    torch._dynamo.graph_break()
    return y.cos()


for _ in range(3):
    f(torch.ones(4))
