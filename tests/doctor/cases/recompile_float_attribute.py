# SPDX-License-Identifier: Apache-2.0
"""A temperature that cools with every step is an attribute of the module."""
import torch
from torch import nn


class Annealed(nn.Module):
    def __init__(self):
        super().__init__()
        self.temperature = 1.0

    def forward(self, logits):
        return (logits / self.temperature).softmax(-1)


net = Annealed()
model = torch.compile(net, backend="eager")
for _ in range(4):
    model(torch.ones(4))
    net.temperature *= 0.5
