# SPDX-License-Identifier: Apache-2.0
"""An input check written as an assertion about values."""
import torch
from torch import nn


class Checked(nn.Module):
    def forward(self, x):
        y = x.exp()
        if torch.isnan(y).any():
            raise ValueError("NaN in the activations")
        return y / y.sum(-1, keepdim=True)


model = torch.compile(Checked(), backend="eager")
for _ in range(3):
    model(torch.ones(2, 4))
