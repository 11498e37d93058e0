# SPDX-License-Identifier: Apache-2.0
"""Experts of floats as an operator of the graph, over weights packed once.
vLLM's routing stays: ATen operators, which are nodes of the graph already."""

from __future__ import annotations

from typing import Any

import torch
from vllm.model_executor.layers.fused_moe.experts.cpu_moe import (
    CPUUnquantizedExperts,
)
from vllm.model_executor.layers.fused_moe.oracle import unquantized
from vllm.model_executor.utils import replace_parameter

from opgraft import ops


class Experts(CPUUnquantizedExperts):
    """No size is padded, so every one is served."""

    @classmethod
    def _padded_intermediate_size(cls, moe_config: Any) -> int:
        return int(moe_config.intermediate_size_per_partition)

    @classmethod
    def _supports_grouped_gemm(cls, moe_config: Any
                               ) -> tuple[bool, str | None]:
        return True, None

    def process_weights_after_loading(self, layer: torch.nn.Module) -> None:
        for name in ("w13_weight", "w2_weight"):
            packed = ops.fused_moe_prepack(getattr(layer, name).data)
            replace_parameter(layer, name, packed)

    def moe_problem_size(self, a1: torch.Tensor, w1: torch.Tensor,
                         w2: torch.Tensor, topk_ids: torch.Tensor
                         ) -> tuple[int, int, int, int, int]:
        inner = self.moe_config.intermediate_size_per_partition
        return (w1.shape[0], a1.shape[0], 2 * inner, a1.shape[1],
                topk_ids.shape[1])

    def apply(self, output: torch.Tensor, hidden_states: torch.Tensor,
              w1: torch.Tensor, w2: torch.Tensor, topk_weights: torch.Tensor,
              topk_ids: torch.Tensor, activation: Any,
              global_num_experts: int, expert_map: torch.Tensor | None,
              *args: Any, apply_router_weight_on_input: bool = False,
              **named: Any) -> None:
        if apply_router_weight_on_input:  # hidden_states have it by now
            topk_weights = torch.ones_like(topk_weights)
        if expert_map is not None:  # of other ranks' experts: -1, skipped
            topk_ids = expert_map[topk_ids.long()]
        output.copy_(ops.fused_moe(
            hidden_states, w1, w2, topk_weights.float(), topk_ids.int(),
            self.w1_bias, self.w2_bias,
            inner=self.moe_config.intermediate_size_per_partition,
            activation=activation.value))


def install() -> None:
    """Before vLLM's own kernels for CPUs."""
    theirs = unquantized.backend_to_kernel_cls

    def chosen(backend: Any) -> list[Any]:
        found = theirs(backend)
        is_cpu = backend == unquantized.UnquantizedMoeBackend.CPU
        return [Experts, *found] if is_cpu else found

    if theirs.__name__ != chosen.__name__:
        unquantized.backend_to_kernel_cls = chosen
