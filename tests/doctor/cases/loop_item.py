# SPDX-License-Identifier: Apache-2.0
"""Attention over ragged lengths: `.item()` in a loop skips the frame."""
import torch
from torch import nn


class RaggedAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(8, 24)

    def forward(self, x, indptr):
        q, k, v = self.qkv(x).chunk(3, -1)
        out = []
        for i in range(2):
            begin = indptr[i].item()
            end = indptr[i + 1].item()
            score = (q[begin:end] @ k[begin:end].T).softmax(-1)
            out.append(score @ v[begin:end])
        return torch.cat(out)


torch.manual_seed(0)
model = torch.compile(RaggedAttention(), backend="aot_eager")
for _ in range(3):
    model(torch.randn(6, 8), torch.tensor([0, 2, 6]))
