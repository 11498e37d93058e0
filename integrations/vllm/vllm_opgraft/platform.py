# SPDX-License-Identifier: Apache-2.0
"""vLLM's CPU platform with opgraft's attention, linear layers and graph."""

from __future__ import annotations

import os
from typing import Any

import torch
from vllm.logger import init_logger
from vllm.platforms.cpu import CpuPlatform

logger = init_logger("vllm.opgraft")  # others than vllm's are not shown
# Caches of 8 bits by vLLM's names, whose memory it calls bytes.
FLOAT8 = {"fp8": torch.float8_e4m3fn, "fp8_e4m3": torch.float8_e4m3fn,
          "fp8_e5m2": torch.float8_e5m2}
HEAD_SIZE_MAX = 256


def _not_ours(c: Any) -> str:
    """Why a layer's attention is vLLM's own; empty where it is not."""
    if c.use_mla or c.use_sparse:
        return "latent and sparse attention"
    if c.attn_type != "decoder":
        return f"attention of kind {c.attn_type}"
    own = str(c.dtype).removeprefix("torch.")  # of keys and values
    if (c.kv_cache_dtype or "auto") not in ("auto", own, *FLOAT8):
        return f"a cache of {c.kv_cache_dtype}"
    if c.head_size > HEAD_SIZE_MAX:
        return f"heads of {c.head_size}"
    others = [f for f in ("use_mm_prefix", "use_non_causal", "use_dcp",
                          "use_pcp", "use_rswa", "use_kv_connector")
              if getattr(c, f, False)]
    return ", ".join(others)


class OpgraftPlatform(CpuPlatform):
    # Of the layer that is being made: vLLM asks for the backend first, then
    # whether its attention is an operator that a graph cannot look into.
    _is_opaque = False

    @classmethod
    def get_attn_backend_cls(cls, selected_backend: Any,
                             attn_selector_config: Any,
                             num_heads: int | None = None) -> str:
        reason = _not_ours(attn_selector_config)
        cls._is_opaque = bool(reason)
        if reason:
            logger.info_once("%s: by vLLM's own kernels", reason)
            return super().get_attn_backend_cls(
                selected_backend, attn_selector_config, num_heads)
        return "vllm_opgraft.attention.Backend"

    @classmethod
    def opaque_attention_op(cls) -> bool:
        return cls._is_opaque

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        from vllm.config import CompilationMode

        logger.info_once("opgraft serves the model")
        chosen = vllm_config.compilation_config
        is_default = (chosen.mode in (None, CompilationMode.VLLM_COMPILE)
                      and chosen.backend in ("", "inductor"))
        if vllm_config.parallel_config.worker_cls == "auto":
            vllm_config.parallel_config.worker_cls = \
                "vllm_opgraft.worker.Worker"
        super().check_and_update_config(vllm_config)
        if is_default and chosen.mode != CompilationMode.NONE:
            chosen.mode = CompilationMode.DYNAMO_TRACE_ONCE
            chosen.backend = "vllm_opgraft.graph.backend"
            # Norms, gates and rope come as ATen operators, which fuse.
            chosen.custom_ops = ["none"]
            # The graph is planned in less time than a file is read.
            os.environ["VLLM_USE_AOT_COMPILE"] = "0"
