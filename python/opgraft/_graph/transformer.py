# SPDX-License-Identifier: Apache-2.0
"""What nn.TransformerEncoderLayer and nn.MultiheadAttention call in inference,
one kernel for a whole layer, as the operators that it is made of: these have
rows, are packed and fuse. Source: ATen's transformer.cpp and attention.cpp."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.nn import functional

KEY_PADDING = 1  # a mask of [batch, keys]; others broadcast to the scores


def _scores_mask(mask: Any, mask_type: int | None) -> Any:
    """True where a key counts; ATen reads a float mask as what is not 0."""
    if mask is None:
        return None
    keep = mask.to(torch.bool).logical_not()
    return keep[:, None, None, :] if mask_type == KEY_PADDING else keep


def _weights_of(q: Any, k: Any, keep: Any) -> Any:
    scores = (q / math.sqrt(q.shape[-1])) @ k.transpose(-1, -2)
    if keep is not None:
        scores = torch.where(keep, scores, -math.inf)
    return torch.softmax(scores, -1)


def multi_head_attention(
        query: Any, key: Any, value: Any, embed_dim: int, num_head: int,
        qkv_weight: Any, qkv_bias: Any, proj_weight: Any, proj_bias: Any,
        mask: Any = None, need_weights: bool = True,
        average_attn_weights: bool = True, mask_type: int | None = None
) -> Any:
    """Of one [batch, length, embed_dim]; the weights come averaged over heads
    or not."""
    if query.is_nested or query is not key or key is not value:
        return NotImplemented
    projected = functional.linear(query, qkv_weight, qkv_bias)
    q, k, v = (x.unflatten(-1, (num_head, -1)).transpose(1, 2)
               for x in projected.split(embed_dim, -1))
    keep = _scores_mask(mask, mask_type)
    if need_weights:
        weights = _weights_of(q, k, keep)
        mixed = weights @ v
        told = weights.mean(1) if average_attn_weights else weights
    else:
        mixed = functional.scaled_dot_product_attention(q, k, v, keep)
        told = None
        if keep is not None:  # a query without a key: the kernel gives NaN
            mixed = mixed.masked_fill(~keep.any(-1, keepdim=True), math.nan)
    return functional.linear(mixed.transpose(1, 2).flatten(2), proj_weight,
                             proj_bias), told


def encoder_layer(
        src: Any, embed_dim: int, num_heads: int, qkv_weight: Any,
        qkv_bias: Any, proj_weight: Any, proj_bias: Any, use_gelu: bool,
        norm_first: bool, eps: float, norm_weight_1: Any, norm_bias_1: Any,
        norm_weight_2: Any, norm_bias_2: Any, ffn_weight_1: Any,
        ffn_bias_1: Any, ffn_weight_2: Any, ffn_bias_2: Any, mask: Any = None,
        mask_type: int | None = None) -> Any:
    if src.is_nested:
        return NotImplemented

    def norm(x: Any, weight: Any, bias: Any) -> Any:
        return functional.layer_norm(x, (embed_dim,), weight, bias, eps)

    x = norm(src, norm_weight_1, norm_bias_1) if norm_first else src
    x = src + multi_head_attention(
        x, x, x, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight,
        proj_bias, mask, False, False, mask_type)[0]
    if not norm_first:
        x = norm(x, norm_weight_1, norm_bias_1)
    y = norm(x, norm_weight_2, norm_bias_2) if norm_first else x
    y = functional.linear(y, ffn_weight_1, ffn_bias_1)
    y = functional.gelu(y) if use_gelu else functional.relu(y)
    y = x + functional.linear(y, ffn_weight_2, ffn_bias_2)
    return y if norm_first else norm(y, norm_weight_2, norm_bias_2)
