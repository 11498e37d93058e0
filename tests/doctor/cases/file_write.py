# SPDX-License-Identifier: Apache-2.0
"""Activations are dumped to a file."""
import io

import torch
from torch import nn

sink = io.BytesIO()


class Dump(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)

    def forward(self, x):
        y = self.proj(x)
        torch.save(y, sink)
        return y.relu()


torch.manual_seed(0)
model = torch.compile(Dump(), backend="aot_eager")
with torch.no_grad():
    for _ in range(3):
        model(torch.ones(2, 4))
