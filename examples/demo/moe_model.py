# SPDX-License-Identifier: Apache-2.0
"""A transformer block whose experts are an opaque C kernel."""

from __future__ import annotations

import moe_kernel
import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Experts(nn.Module):
    def __init__(self, hidden: int, inner: int, experts: int, chosen: int) -> None:
        super().__init__()
        self.chosen = chosen
        self.router = nn.Linear(hidden, experts, bias=False)
        self.w1 = nn.Parameter(torch.randn(experts, inner, hidden) / hidden**0.5)
        self.w2 = nn.Parameter(torch.randn(experts, hidden, inner) / inner**0.5)

    def forward(self, x: Tensor) -> Tensor:
        weights, ids = F.softmax(self.router(x), -1).topk(self.chosen)
        weights = weights / weights.sum(-1, keepdim=True)
        out = torch.empty_like(x)
        moe_kernel.expert_ffn(out, x, ids, weights, self.w1, self.w2)
        return out


class Block(nn.Module):
    def __init__(self, hidden: int = 64, inner: int = 32, experts: int = 8,
                 chosen: int = 2) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(hidden)
        self.mix = nn.Linear(hidden, hidden)
        self.experts = Experts(hidden, inner, experts, chosen)

    def forward(self, x: Tensor) -> Tensor:
        x = x + F.silu(self.mix(x))
        return x + self.experts(self.norm(x))


class Model(nn.Module):
    def __init__(self, blocks: int = 2) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(blocks))

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return x


def reference(x: Tensor, ids: Tensor, weights: Tensor, w1: Tensor, w2: Tensor) -> Tensor:
    """What the kernel computes, by PyTorch."""
    inner = F.silu(torch.einsum("th,tkih->tki", x, w1[ids]))
    return torch.einsum("tki,tkhi,tk->th", inner, w2[ids], weights)
