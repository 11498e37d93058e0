# SPDX-License-Identifier: Apache-2.0
"""fullgraph=True turns the break into an exception."""
import torch


@torch.compile(backend="eager", fullgraph=True)
def f(x):
    y = x * 2
    if y.sum() > 0:
        return y
    return -y


f(torch.ones(4))
