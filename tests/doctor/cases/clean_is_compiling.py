# SPDX-License-Identifier: Apache-2.0
"""A debugging branch that is off while compiling."""
import torch


@torch.compile(backend="eager")
def layer(x):
    y = x.exp()
    if not torch.compiler.is_compiling() and y.isnan().any():
        print("NaN", y)
    return y / y.sum()


for _ in range(3):
    layer(torch.ones(4))
