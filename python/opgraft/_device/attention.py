# SPDX-License-Identifier: Apache-2.0
"""The fused attention that torch leaves to a device: composed, on copies.

softmax(query key' scale + bias) value; dropped weights repeat by the seed that
the forward keeps for the backward.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from . import fallback

_SEEDS = 2**62
_NAME = "_scaled_dot_product_fused_attention_overrideable"


def kernels() -> dict[str, Any]:
    """By the operator's name."""
    return {_NAME: _kernel(_NAME, _forward),
            f"{_NAME}_backward": _kernel(f"{_NAME}_backward", _backward)}


def _kernel(name: str, function: Any) -> Any:
    op = getattr(torch.ops.aten, name).default

    def call(*args: Any, **kwargs: Any) -> Any:
        return fallback.run_by(function, op, *args, **kwargs)

    return call


def _weights(
    query: Tensor, key: Tensor, bias: Tensor | None, is_causal: bool,
    factor: float,
) -> tuple[Tensor, Tensor]:
    """Each row's, and the logarithm of its sum."""
    scores = query @ key.transpose(-2, -1) * factor
    if bias is not None:
        scores = scores + bias
    if is_causal:
        mask = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
        scores = scores.masked_fill(~mask, -torch.inf)
    return scores.softmax(-1), scores.logsumexp(-1)


def _dropped(weights: Tensor, dropout: float, seed: Tensor) -> Tensor:
    if dropout == 0:
        return weights
    generator = torch.Generator().manual_seed(int(seed))
    kept = torch.rand(weights.shape, generator=generator) >= dropout
    return weights * kept / (1 - dropout)


def _factor(query: Tensor, scale: float | None) -> float:
    return query.shape[-1] ** -0.5 if scale is None else scale


def _forward(
    query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None = None,
    dropout: float = 0.0, is_causal: bool = False, with_mask: bool = False, *,
    scale: float | None = None,
) -> tuple[Any, ...]:
    seed = torch.randint(_SEEDS, ()) if dropout > 0 else torch.tensor(0)
    weights, sums = _weights(query, key, bias, is_causal,
                             _factor(query, scale))
    cum_query, cum_key = (torch.empty(0, dtype=torch.int32) for _ in range(2))
    return (_dropped(weights, dropout, seed) @ value, sums, cum_query, cum_key,
            query.shape[-2], key.shape[-2], seed, torch.tensor(0),
            torch.empty(0))


def _backward(
    grad: Tensor, query: Tensor, key: Tensor, value: Tensor,
    bias: Tensor | None, asked: Any, out: Tensor, sums: Tensor,
    cum_query: Tensor, cum_key: Tensor, max_query: int, max_key: int,
    dropout: float, is_causal: bool, seed: Tensor, offset: Tensor, *,
    scale: float | None = None,
) -> tuple[Tensor | None, ...]:
    factor = _factor(query, scale)
    weights, _ = _weights(query, key, bias, is_causal, factor)
    grad_weights = _dropped(grad @ value.transpose(-2, -1), dropout, seed)
    rows = (grad_weights * weights).sum(-1, keepdim=True)
    scores = weights * (grad_weights - rows)
    grads = (
        scores @ key * factor, scores.transpose(-2, -1) @ query * factor,
        _dropped(weights, dropout, seed).transpose(-2, -1) @ grad,
        None if bias is None else scores.sum_to_size(bias.shape))
    return tuple(g if need else None for g, need in zip(grads, asked))
