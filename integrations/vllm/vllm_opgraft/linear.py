# SPDX-License-Identifier: Apache-2.0
"""Linear layers: within the compiled model they stay aten.linear, whose weights
the graph packs; what runs outside of it, as lm_head does, is packed here."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional
from vllm.model_executor.layers import linear, utils, vocab_parallel_embedding

from opgraft import ops

FLOATS = (torch.float32, torch.bfloat16, torch.float16)


class Linear:
    """A layer's product. It packs at the first call outside of a graph, when
    the weights are loaded, and again where they were replaced since."""

    def __init__(self) -> None:
        self.packed: torch.Tensor | None = None
        self.of: tuple[Any, ...] = ()

    def __call__(self, x: torch.Tensor, weight: torch.Tensor,
                 bias: torch.Tensor | None) -> torch.Tensor:
        if torch.compiler.is_compiling() or x.dtype not in FLOATS:
            return functional.linear(x, weight, bias)
        now = (weight.data_ptr(), weight._version, weight.shape)
        if self.packed is None or self.of != now:
            self.packed, self.of = ops.linear_prepack(weight.detach()), now
        return ops.linear_packed(x, self.packed, bias,
                                 out_features=weight.shape[0])


def dispatch(layer: torch.nn.Module, remove_weight: bool = False) -> None:
    """In place of vLLM's dispatch_cpu_unquantized_gemm."""
    is_matrix = not layer.weight.is_meta and layer.weight.ndim == 2
    layer.cpu_linear = Linear() if is_matrix else functional.linear


def install() -> None:
    """vLLM has no registry for unquantised products."""
    for module in (utils, linear, vocab_parallel_embedding):
        if hasattr(module, "dispatch_cpu_unquantized_gemm"):
            module.dispatch_cpu_unquantized_gemm = dispatch
