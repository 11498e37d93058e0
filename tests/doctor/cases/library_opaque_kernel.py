# SPDX-License-Identifier: Apache-2.0
"""A third-party package wraps a compiled kernel that Dynamo skips."""
import sys
from pathlib import Path

import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).parent / "library_opaque_lib/site-packages"))
from fastcrc import fingerprint  # noqa: E402


class Hashed(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(8, 4)

    def forward(self, tokens, name):
        x = self.embed(tokens)
        return x + fingerprint(name)


torch.manual_seed(0)
hashed = torch.compile(Hashed(), backend="eager")
with torch.no_grad():
    for _ in range(3):
        hashed(torch.tensor([1, 2]), b"query")
