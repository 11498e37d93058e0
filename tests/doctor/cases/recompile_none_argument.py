# SPDX-License-Identifier: Apache-2.0
"""An optional mask that is sometimes absent."""
import torch
from torch import nn


class Attention(nn.Module):
    def forward(self, q, mask=None):
        score = q @ q.transpose(-1, -2)
        if mask is not None:
            score = score + mask
        return score.softmax(-1)


model = torch.compile(Attention(), backend="aot_eager")
q = torch.ones(1, 3, 4)
for mask in (None, torch.zeros(3, 3), None):
    model(q, mask)
