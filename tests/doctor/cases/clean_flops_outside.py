# SPDX-License-Identifier: Apache-2.0
"""FLOPs are counted of the eager model, the compiled one runs without."""
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

model = nn.Linear(4, 4)
compiled = torch.compile(model, backend="eager")
x = torch.ones(2, 4)
with FlopCounterMode(display=False) as counter:
    model(x)
for _ in range(2):
    compiled(x)
