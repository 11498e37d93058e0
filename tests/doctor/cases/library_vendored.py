# SPDX-License-Identifier: Apache-2.0
"""A third-party package breaks below the user's call."""
import sys
from pathlib import Path

import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).parent / "library_vendored_lib/site-packages"))
from fastnorm import robust_norm  # noqa: E402


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)

    def forward(self, x):
        y = self.proj(x)
        return robust_norm(y) * 2


torch.manual_seed(0)
block = torch.compile(Block(), backend="aot_eager")
with torch.no_grad():
    for _ in range(3):
        block(torch.ones(2, 4))
