# SPDX-License-Identifier: Apache-2.0
"""Training and evaluation alternate by the global gradient mode."""
import torch
from torch import nn

torch.manual_seed(0)
layer = nn.Linear(4, 4)
compiled = torch.compile(layer, backend="aot_eager")
x = torch.ones(2, 4)
for _ in range(2):
    compiled(x)
    with torch.no_grad():
        compiled(x)
