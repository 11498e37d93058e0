# SPDX-License-Identifier: Apache-2.0
"""A small Llama-style model whose rows are the tokens of any requests.

Nothing in it knows where a request begins or ends: that stands in the plan,
the positions and the slots of a step. So a step may hold whole prompts, parts
of prompts and single tokens that are being generated, and compiles to one
graph for all of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from opgraft import ops


@dataclass(frozen=True)
class Config:
    vocabulary: int = 512
    width: int = 256
    inner: int = 704
    layers: int = 4
    heads: int = 8
    kv_heads: int = 2
    head_size: int = 32
    page_size: int = 16


@dataclass
class Step:
    """What one step is about; rows are tokens."""

    tokens: Tensor  # [rows] int64
    positions: Tensor  # [rows] int64, each token's place in its request
    slots: Tensor  # [rows] int64, each token's place in the cache
    last_rows: Tensor  # [requests] int64, the row whose logits are needed
    plan: Tensor  # uint8, from ops.plan_attention
    pages: Tensor  # int32, the pages of all requests, in order


def parameter(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.randn(*shape) * shape[-1] ** -0.5,
                        requires_grad=False)


class Layer(nn.Module):
    def __init__(self, c: Config) -> None:
        super().__init__()
        self.c = c
        rows = (c.heads + 2 * c.kv_heads) * c.head_size
        self.qkv = parameter(rows, c.width)
        self.out = parameter(c.width, c.heads * c.head_size)
        self.gate_up = parameter(2 * c.inner, c.width)
        self.down = parameter(c.width, c.inner)
        self.attention_norm = nn.Parameter(torch.ones(c.width), False)
        self.mlp_norm = nn.Parameter(torch.ones(c.width), False)

    def attend(self, x: Tensor, step: Step, k_cache: Tensor,
               v_cache: Tensor) -> Tensor:
        c = self.c
        q, k, v = F.linear(x, self.qkv).unflatten(
            -1, (-1, c.head_size)).split(
                [c.heads, c.kv_heads, c.kv_heads], 1)
        q, k = ops.apply_rope(q, k, step.positions)
        k_cache, v_cache = ops.reshape_and_cache(
            k, v, k_cache, v_cache, step.slots)
        found, _ = ops.batch_prefill_paged(
            step.plan, q, k_cache, v_cache, step.pages)
        return F.linear(found.flatten(1), self.out)

    def forward(self, x: Tensor, step: Step, k_cache: Tensor,
                v_cache: Tensor) -> Tensor:
        y = ops.rms_norm(x, self.attention_norm)
        x = x + self.attend(y, step, k_cache, v_cache)
        y = ops.rms_norm(x, self.mlp_norm)
        return x + F.linear(ops.silu_and_mul(F.linear(y, self.gate_up)),
                            self.down)


class Model(nn.Module):
    def __init__(self, c: Config) -> None:
        super().__init__()
        self.c = c
        self.embedding = parameter(c.vocabulary, c.width)
        self.layers = nn.ModuleList(Layer(c) for _ in range(c.layers))
        self.norm = nn.Parameter(torch.ones(c.width), False)

    def caches(self, pages: int) -> list[tuple[Tensor, Tensor]]:
        c = self.c
        shape = (pages, c.page_size, c.kv_heads, c.head_size)
        return [(torch.zeros(shape), torch.zeros(shape))
                for _ in range(c.layers)]

    def forward(self, tokens: Tensor, positions: Tensor, slots: Tensor,
                last_rows: Tensor, plan: Tensor, pages: Tensor,
                caches: list[tuple[Tensor, Tensor]]) -> Tensor:
        """The next token of each request."""
        step = Step(tokens, positions, slots, last_rows, plan, pages)
        x = F.embedding(tokens, self.embedding)
        for layer, (k_cache, v_cache) in zip(self.layers, caches, strict=True):
            x = layer(x, step, k_cache, v_cache)
        x = ops.rms_norm(x[last_rows], self.norm)
        return F.linear(x, self.embedding).argmax(-1)


def alone(model: Model, tokens: Tensor, count: int) -> list[int]:
    """Plain torch: one request by itself, whole, without a cache."""
    c, found = model.c, []
    half = c.head_size // 2
    frequency = 1e4 ** (-torch.arange(half).double() / half)
    for _ in range(count):
        angle = torch.arange(len(tokens))[:, None, None] * frequency
        cos, sin = angle.cos().float(), angle.sin().float()
        x = F.embedding(tokens, model.embedding)
        for layer in model.layers:
            x = x + _attend_alone(layer, x, cos, sin)
            y = F.rms_norm(x, (c.width,), layer.mlp_norm, 1e-6)
            gate, up = F.linear(y, layer.gate_up).chunk(2, -1)
            x = x + F.linear(F.silu(gate) * up, layer.down)
        x = F.rms_norm(x[-1], (c.width,), model.norm, 1e-6)
        found.append(int(F.linear(x, model.embedding).argmax()))
        tokens = torch.cat([tokens, torch.tensor(found[-1:])])
    return found


def _attend_alone(layer: Layer, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    c = layer.c

    def turn(t: Tensor) -> Tensor:
        low, high = t.chunk(2, -1)
        return torch.cat([low * cos - high * sin, high * cos + low * sin], -1)

    y = F.rms_norm(x, (c.width,), layer.attention_norm, 1e-6)
    q, k, v = F.linear(y, layer.qkv).unflatten(-1, (-1, c.head_size)).split(
        [c.heads, c.kv_heads, c.kv_heads], 1)
    found = F.scaled_dot_product_attention(
        *(t.transpose(0, 1)[None] for t in (turn(q), turn(k), v)),
        is_causal=True, enable_gqa=True)[0]
    return F.linear(found.transpose(0, 1).flatten(1), layer.out)
