# SPDX-License-Identifier: Apache-2.0
"""A configuration object is copied on every call; Dynamo traces the copy."""
import copy

import torch
from torch import nn


class Config:
    def __init__(self):
        self.scale = 2.0
        self.layers = [1, 2]


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.config = Config()

    def forward(self, x):
        y = x + 1
        config = copy.deepcopy(self.config)
        return y * config.scale


model = torch.compile(Scaled(), backend="eager")
for _ in range(3):
    model(torch.ones(4))
