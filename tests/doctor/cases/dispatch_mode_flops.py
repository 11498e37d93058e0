# SPDX-License-Identifier: Apache-2.0
"""FLOPs are counted after a warm-up: while the counter is active, the compiled
function runs eagerly."""
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

model = nn.Linear(4, 4)


@torch.compile(backend="eager")
def step(x):
    return model(x).relu()


x = torch.ones(2, 4)
step(x)
with FlopCounterMode(display=False) as counter:
    step(x)
