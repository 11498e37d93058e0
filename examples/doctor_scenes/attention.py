#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Attention over sequences of several lengths, in a loop that asks a tensor
where each begins: "Unsupported Tensor.item() call". `opgraft doctor --apply
attention.patch attention.py` finds the switch that keeps it whole."""

import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

HEADS = 2


def ragged_attention(q, k, v, indptr):
    """q, k, v: [heads, rows, width]. Rows indptr[i] to indptr[i + 1] attend to
    each other."""
    parts = []
    for i in range(len(indptr) - 1):
        begin = indptr[i].item()
        end = indptr[i + 1].item()
        parts.append(scaled_dot_product_attention(
            q[:, begin:end], k[:, begin:end], v[:, begin:end]))
    return torch.cat(parts, 1)


class Layer(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x, indptr):
        rows, width = x.shape
        q, k, v = self.qkv(self.norm(x)).view(
            rows, 3, HEADS, width // HEADS).permute(1, 2, 0, 3)
        y = ragged_attention(q, k, v, indptr)
        return x + self.out(y.transpose(0, 1).reshape(rows, width))


torch.manual_seed(0)
layer = torch.compile(Layer(32), backend="aot_eager")
with torch.no_grad():
    for ends in ([0, 3, 10], [0, 3, 10], [0, 5, 10]):
        print(layer(torch.randn(10, 32), torch.tensor(ends)).sum().item())
