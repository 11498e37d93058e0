# SPDX-License-Identifier: Apache-2.0
"""opgraft's attention in models of transformers, and generate compiled once.

    import opgraft.transformers
    model = AutoModelForCausalLM.from_pretrained(NAME)
    opgraft.transformers.compile(model)
    model.generate(**inputs, max_new_tokens=100)

The import registers the attention as "opgraft", for `attn_implementation=` too.
It reads keys and values where the cache has them, once for all query heads that
share them, and takes padding, windows, soft caps and sinks. Where it has no
kernel (training, dropout, other devices, masks of numbers, heads of more than
256) PyTorch's attention runs.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from . import ops

try:
    import transformers
    from transformers.integrations.sdpa_attention import sdpa_attention_forward
    from transformers.masking_utils import AttentionMaskInterface, sdpa_mask
except ImportError as error:
    raise ImportError(
        "opgraft.transformers: transformers with AttentionMaskInterface is "
        "missing: pip install 'transformers>=4.53'") from error

NAME = "opgraft"
HEAD_SIZE_MAX = 256
_FLOATS = (torch.float32, torch.bfloat16, torch.float16)


def _is_ours(query: torch.Tensor, value: torch.Tensor, mask: Any,
             dropout: float, others: dict[str, Any]) -> bool:
    sizes = query.shape[-1], value.shape[-1]
    return (query.device.type == "cpu" and query.dtype in _FLOATS
            and 2 <= sizes[0] <= HEAD_SIZE_MAX and sizes[1] <= HEAD_SIZE_MAX
            and not dropout
            and not (torch.is_grad_enabled() and query.requires_grad)
            and (mask is None or mask.dtype == torch.bool
                 and mask.shape[1] == 1)
            and others.get("position_bias") is None)


def _request(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor,
             mask: torch.Tensor | None, sinks: torch.Tensor | None,
             **how: Any) -> torch.Tensor:
    """query[H, Q, D], key and value[KV, K, D], mask[Q, K] to [Q, H, D]."""
    bits = None if mask is None else ops.packbits(  # type: ignore[attr-defined]
        mask.reshape(-1), bitorder="little")
    out, lse = ops.single_prefill(  # type: ignore[attr-defined]
        query.transpose(0, 1), key.transpose(0, 1), value.transpose(0, 1), bits,
        **how)
    if sinks is not None:  # one more key of this logit and no value
        share = torch.sigmoid(lse * math.log(2) - sinks.float())
        out = (out * share[..., None]).to(out.dtype)
    return out


def attention(module: torch.nn.Module, query: torch.Tensor, key: torch.Tensor,
              value: torch.Tensor, attention_mask: torch.Tensor | None,
              dropout: float = 0.0, scaling: float | None = None,
              softcap: float | None = None, s_aux: torch.Tensor | None = None,
              is_causal: bool | None = None, **others: Any
              ) -> tuple[torch.Tensor, None]:
    """What a layer of transformers calls for `attn_implementation="opgraft"`:
    query[B, H, Q, D], key and value[B, KV, K, D] to [B, Q, H, D].

    NotImplementedError for a soft cap or sinks where it has no kernel (see
    above): PyTorch's attention has neither.

        >>> layer = torch.nn.Module()
        >>> q, k = torch.ones(1, 4, 3, 8), torch.ones(1, 2, 3, 8)
        >>> opgraft.transformers.attention(layer, q, k, k, None)[0].shape
        torch.Size([1, 3, 4, 8])
    """
    if not _is_ours(query, value, attention_mask, dropout, others):
        if softcap is not None or s_aux is not None:
            raise NotImplementedError(
                "opgraft.transformers: attention with a soft cap or sinks runs "
                "on the CPU without gradients, dropout or masks of numbers: "
                "choose attn_implementation=\"eager\" here")
        found: tuple[torch.Tensor, None] = sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout, scaling,
            is_causal, **others)
        return found
    if is_causal is None:
        is_causal = getattr(module, "is_causal", True)
    length = query.shape[2]
    causal = length > 1 and attention_mask is None and is_causal
    if causal:  # of a static cache that was empty: what follows is free room
        key, value = key[:, :, :length], value[:, :, :length]
    if attention_mask is not None:
        attention_mask = attention_mask[:, 0].expand(
            query.shape[0], length, key.shape[2])
    return torch.stack([
        _request(query[i], key[i], value[i],
                 None if attention_mask is None else attention_mask[i], s_aux,
                 causal=bool(causal), sm_scale=scaling,
                 logits_soft_cap=softcap or 0.0)
        for i in range(query.shape[0])]), None


def compile(model: Any, **options: Any) -> Any:
    """The model, whose calls are compiled by the backend "opgraft" from now on,
    with these options: also those that `generate` makes, with any cache.

    The graph of a prompt and the graph of a token serve every length; another
    size of the batch has two of its own. TypeError for anything but a model of
    transformers, ValueError where its layers do not choose their attention by
    name.

        >>> from transformers import LlamaConfig, LlamaForCausalLM
        >>> model = LlamaForCausalLM(LlamaConfig(
        ...     hidden_size=32, intermediate_size=32, num_hidden_layers=1,
        ...     num_attention_heads=2, vocab_size=64))
        >>> model = opgraft.transformers.compile(model, mode="max-autotune")
        >>> model.generate(torch.ones(1, 3, dtype=torch.int64), do_sample=False,
        ...                max_new_tokens=4, min_new_tokens=4).shape
        torch.Size([1, 7])
    """
    if not isinstance(model, transformers.PreTrainedModel):
        raise TypeError("opgraft.transformers.compile: the model is a "
                        f"{type(model).__name__}, expected a PreTrainedModel of "
                        "transformers; torch.compile(model, "
                        "backend=\"opgraft\") takes others")
    model.set_attn_implementation(NAME)
    if model.config._attn_implementation != NAME:
        raise ValueError(f"opgraft.transformers.compile: {type(model).__name__} "
                         "has an attention of its own; torch.compile(model, "
                         "backend=\"opgraft\") takes it as it is")
    model.compile(backend="opgraft", dynamic=True, options=options)
    return model


transformers.AttentionInterface.register(NAME, attention)
AttentionMaskInterface.register(NAME, sdpa_mask)
