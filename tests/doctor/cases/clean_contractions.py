# SPDX-License-Identifier: Apache-2.0
"""A convolution and linear layers with Inductor: a library's kernels are
right for them."""
import torch
from torch import nn

model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(),
                      nn.Linear(144, 8), nn.GELU(), nn.Linear(8, 2))
compiled, product = torch.compile(model), torch.compile(torch.bmm)
with torch.no_grad():
    for _ in range(2):
        compiled(torch.ones(2, 3, 8, 8))
        product(torch.ones(2, 3, 4), torch.ones(2, 4, 5))
