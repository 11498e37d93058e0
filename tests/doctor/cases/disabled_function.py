# SPDX-License-Identifier: Apache-2.0
"""A helper that somebody excluded from compilation."""
import torch


@torch.compiler.disable
def reference_norm(x):
    return x / x.norm()


@torch.compile(backend="eager")
def layer(x):
    y = x + 1
    y = reference_norm(y)
    return y * 2


for _ in range(3):
    layer(torch.ones(4))
