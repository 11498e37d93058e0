# SPDX-License-Identifier: Apache-2.0
"""An activation is chosen by text that is evaluated."""
import torch

CHOSEN = "torch.relu"


@torch.compile(backend="eager")
def activated(x):
    y = x - 1
    fn = eval(CHOSEN)
    return fn(y)


for _ in range(2):
    activated(torch.ones(4))
