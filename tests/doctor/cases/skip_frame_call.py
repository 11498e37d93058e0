# SPDX-License-Identifier: Apache-2.0
"""A helper asks Dynamo to skip the frame."""
import torch


@torch.compile(backend="eager")
def f(x):
    y = x * 2
    torch._dynamo.skip_frame("not supported yet")
    return y + 1


for _ in range(3):
    f(torch.ones(4))
