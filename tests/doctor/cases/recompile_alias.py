# SPDX-License-Identifier: Apache-2.0
"""Two arguments that are sometimes the same tensor."""
import torch


@torch.compile(backend="eager")
def mix(a, b):
    return a * 2 + b


x, y = torch.ones(4), torch.zeros(4)
for pair in ((x, y), (x, x), (y, x)):
    mix(*pair)
