# SPDX-License-Identifier: Apache-2.0
"""Attention over vLLM's paged cache by operators of opgraft, within the graph.

A step's plan, pages and slots are written into buffers that stay, so that the
compiled model reads them as inputs: no layer calls Python.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from vllm.config import get_layers_from_vllm_config
from vllm.model_executor.layers.attention import Attention
from vllm.v1.attention.backend import AttentionImpl, AttentionMetadataBuilder
from vllm.v1.attention.backends.cpu_attn import CPUAttentionBackend

from opgraft import ops

from .platform import FLOAT8


class Step:
    """What the layers of one group of caches read: slots of the new tokens, the
    pages of all requests, and a plan for each form of attention."""

    def __init__(self, config: Any, page_size: int) -> None:
        limits = config.scheduler_config
        self.batch = limits.max_num_seqs
        self.tokens = limits.max_num_batched_tokens
        self.length = config.model_config.max_model_len
        self.page_size = page_size
        self.threads = torch.get_num_threads()
        per_request = -(-self.length // page_size)
        self.slots = torch.full((self.tokens,), -1, dtype=torch.int64)
        self.pages = torch.zeros(self.batch * per_request, dtype=torch.int32)
        self.plans: dict[tuple[int, int, int, int], torch.Tensor] = {}

    def plan_of(self, heads: int, kv_heads: int, size: int, window: int
                ) -> torch.Tensor:
        form = (heads, kv_heads, size, window)
        if form not in self.plans:
            room = ops.attention_plan_max(
                self.batch, self.tokens, self.length, heads, kv_heads, size,
                size, page_size=self.page_size, causal=True,
                window_left=window, heads_first=True, threads=self.threads)
            self.plans[form] = torch.zeros(int(room), dtype=torch.uint8)
            self._fill(form, torch.zeros(1, dtype=torch.int32),
                       torch.zeros(1, dtype=torch.int32),
                       torch.zeros(0, dtype=torch.int32), True)
        return self.plans[form]

    def _fill(self, form: tuple[int, int, int, int], indptr: torch.Tensor,
              starts: torch.Tensor, last: torch.Tensor, causal: bool) -> None:
        heads, kv_heads, size, window = form
        ops.plan_attention(
            indptr, starts, heads, kv_heads, size, last_page_len=last,
            page_size=self.page_size, causal=causal, window_left=window,
            heads_first=True, threads=self.threads, buffer=self.plans[form])

    def write(self, m: Any) -> None:
        """Of vLLM's CommonAttentionMetadata."""
        count = m.num_reqs
        lengths = m.seq_lens[:count].to(torch.int32)
        pages = (lengths + self.page_size - 1) // self.page_size
        indptr = torch.zeros(count + 1, dtype=torch.int32)
        torch.cumsum(pages, 0, out=indptr[1:])
        table = m.block_table_tensor[:count]
        of = table[torch.arange(table.shape[1]) < pages[:, None]]
        self.pages[:of.shape[0]] = of
        slots = m.slot_mapping
        self.slots[:slots.shape[0]] = slots
        self.slots[m.num_actual_tokens:] = -1
        last = lengths - (pages - 1) * self.page_size
        for form in self.plans:
            self._fill(form, indptr, m.query_start_loc[:count + 1], last,
                       bool(m.causal))


class Builder(AttentionMetadataBuilder[Any]):
    def __init__(self, kv_cache_spec: Any, layer_names: list[str],
                 vllm_config: Any, device: torch.device) -> None:
        super().__init__(kv_cache_spec, layer_names, vllm_config, device)
        self.step = Step(vllm_config, kv_cache_spec.block_size)
        layers = get_layers_from_vllm_config(vllm_config, Attention,
                                             layer_names)
        for layer in layers.values():
            layer.impl.join(self.step)

    def build(self, common_prefix_len: int, common_attn_metadata: Any,
              fast_build: bool = False) -> Any:
        self.step.write(common_attn_metadata)
        return common_attn_metadata


class Impl(AttentionImpl[Any]):
    def __init__(self, num_heads: int, head_size: int, scale: float,
                 num_kv_heads: int, alibi_slopes: list[float] | None,
                 sliding_window: int | None, kv_cache_dtype: str,
                 logits_soft_cap: float | None = None,
                 attn_type: str = "decoder",
                 kv_sharing_target_layer_name: str | None = None,
                 sinks: torch.Tensor | None = None) -> None:
        if alibi_slopes is not None:
            raise NotImplementedError(
                "vllm-opgraft: attention with ALiBi's slopes: choose vLLM's "
                "own platform (VLLM_PLUGINS='')")
        self.num_heads, self.head_size = num_heads, head_size
        self.num_kv_heads, self.scale = num_kv_heads, float(scale)
        self.kv_cache_dtype, self.sinks = kv_cache_dtype, sinks
        self.float8 = FLOAT8.get(kv_cache_dtype)
        self.sliding_window = sliding_window
        self.window_left = -1 if sliding_window is None else sliding_window - 1
        self.soft_cap = float(logits_soft_cap or 0)
        self.kv_sharing_target_layer_name = kv_sharing_target_layer_name
        self.step: Step | None = None

    def join(self, step: Step) -> None:
        self.step = step
        self.slots, self.pages = step.slots, step.pages
        self.plan = step.plan_of(self.num_heads, self.num_kv_heads,
                                 self.head_size, self.window_left)
        self.split_bytes = step.threads * ops.SPLIT_BYTES_PER_THREAD

    def forward(self, layer: Any, query: torch.Tensor, key: torch.Tensor,
                value: torch.Tensor, kv_cache: torch.Tensor,
                attn_metadata: Any, output: torch.Tensor,
                output_scale: torch.Tensor | None = None,
                output_block_scale: torch.Tensor | None = None
                ) -> torch.Tensor:
        """query[T, H, D], key and value[T, KV, D], cache[pages, KV, page, 2 D];
        writes output[T, H, D]."""
        if self.step is None:  # memory is being measured: there is no cache
            return output
        write, read = ops.reshape_and_cache, ops.batch_prefill_paged
        scales: tuple[torch.Tensor, ...] = ()
        if self.float8 is not None:
            write = ops.reshape_and_cache_scaled
            read = ops.batch_prefill_paged_scaled
            # One of the layer, or one for each KV head.
            scales = layer._k_scale.reshape(-1), layer._v_scale.reshape(-1)
            kv_cache = kv_cache.view(self.float8)
        # Two views [page, token, head, size] of head-major pages.
        k_cache, v_cache = kv_cache.transpose(1, 2).split(self.head_size, -1)
        if key is not None and self.kv_sharing_target_layer_name is None:
            write(key, value, k_cache, v_cache, self.slots[:key.shape[0]],
                  *scales)
        found, lse = read(
            self.plan, query, k_cache, v_cache, self.pages, *scales,
            sm_scale=self.scale, logits_soft_cap=self.soft_cap,
            split_bytes=self.split_bytes)
        if self.sinks is not None:  # one more key of this logit and no value
            share = torch.sigmoid(lse * math.log(2) - self.sinks.float())
            found = (found * share[..., None]).to(found.dtype)
        output.copy_(found)
        return output


class Backend(CPUAttentionBackend):
    forward_includes_kv_cache_update = True

    @staticmethod
    def get_impl_cls() -> type[Impl]:
        return Impl

    @staticmethod
    def get_builder_cls() -> type[Builder]:
        return Builder
