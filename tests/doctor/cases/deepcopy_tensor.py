# SPDX-License-Identifier: Apache-2.0
"""A target network is copied inside the update."""
import copy

import torch
from torch import nn


class Target(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(4, 4)

    def forward(self, x):
        y = self.net(x)
        frozen = copy.deepcopy(y.detach())
        return y - frozen


torch.manual_seed(0)
target = torch.compile(Target(), backend="aot_eager")
for _ in range(3):
    target(torch.ones(2, 4))
