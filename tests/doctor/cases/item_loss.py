# SPDX-License-Identifier: Apache-2.0
"""A loss that is logged inside the compiled training objective."""
import torch
from torch import nn


class Objective(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(8, 4)
        self.last = 0.0

    def forward(self, x, target):
        logits = self.net(x)
        loss = nn.functional.mse_loss(logits, target)
        self.last = loss.item()
        return loss * 2


torch.manual_seed(0)
step = torch.compile(Objective(), backend="aot_eager")
for _ in range(3):
    step(torch.randn(2, 8), torch.randn(2, 4)).backward()
