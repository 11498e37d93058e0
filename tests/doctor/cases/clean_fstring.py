# SPDX-License-Identifier: Apache-2.0
"""A status line with a tensor formatted into it, put off by Dynamo."""
import torch


@torch.compile(backend="eager")
def step(x):
    y = x.square()
    message = f"energy {y.sum()}"
    return y, message


for _ in range(3):
    step(torch.ones(4))
