# SPDX-License-Identifier: Apache-2.0
"""Self-attention, residuals, norms, and no break."""
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width=8, heads=2):
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        batch, length, width = x.shape
        qkv = self.qkv(self.norm(x))
        q, k, v = qkv.view(batch, length, 3, self.heads, -1).unbind(2)
        mixed = nn.functional.scaled_dot_product_attention(
            q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2))
        return x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))


torch.manual_seed(0)
block = torch.compile(Block(), backend="aot_eager")
for _ in range(3):
    block(torch.randn(2, 5, 8)).sum().backward()
