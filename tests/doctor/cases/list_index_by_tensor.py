# SPDX-License-Identifier: Apache-2.0
"""An expert is picked from a list by a tensor."""
import torch
from torch import nn


class Switch(nn.Module):
    def __init__(self):
        super().__init__()
        self.scales = [1.0, 2.0, 3.0]
        self.router = nn.Linear(4, 3)

    def forward(self, x):
        choice = self.router(x).mean(0).argmax()
        return x * self.scales[choice]


torch.manual_seed(0)
switch = torch.compile(Switch(), backend="aot_eager")
for _ in range(3):
    switch(torch.ones(2, 4))
