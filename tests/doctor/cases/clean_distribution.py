# SPDX-License-Identifier: Apache-2.0
"""A distribution with argument checks is made in the forward pass."""
import torch
from torch import nn
from torch.distributions import Multinomial


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(4, 3)

    def forward(self, x):
        probs = self.head(x).softmax(-1)
        counts = Multinomial(4, probs=probs).sample()
        return counts * probs


torch.manual_seed(0)
policy = torch.compile(Policy(), backend="eager")
with torch.no_grad():
    for _ in range(3):
        policy(torch.randn(2, 4))
