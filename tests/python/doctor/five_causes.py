# SPDX-License-Identifier: Apache-2.0
"""One cause of each kind; the test finds the lines by their comments."""

import torch


def helper(x):
    torch._dynamo.graph_break()  # root: break
    return x * 2


@torch.compile(backend="aot_eager")
def nested(x):
    return helper(x + 1) - 1


@torch.compile(backend="aot_eager")
def scalar(x):
    y = x.sin()
    n = y.sum().item()  # root: item
    return y * n


@torch.compile(backend="aot_eager")
def looped(x):
    for _ in range(3):
        x = x + 1
        if x.sum() > 0:  # root: loop
            x = x * 2
    return x


@torch.compile(backend="aot_eager")
def scaled(x, n):
    return x * n  # root: recompile


@torch.compile
def fallback(x):
    return torch.linalg.svdvals(x.cos()) + 1  # root: fallback


@torch.compile(backend="aot_eager")
def clean(x):
    return x.cos() + 1


x = torch.randn(8, 8)
nested(x)
scalar(x)
looped(x)
scaled(x, 2.0)
scaled(x, 3.0)
fallback(x)
clean(x)
print("the script's own line")
