# SPDX-License-Identifier: Apache-2.0
"""Linear layers of quantised checkpoints: codes and scales go into opgraft's
panels as they are, and stand in the graph as operators over these."""

from __future__ import annotations

from typing import Any

import torch
from vllm.model_executor.kernels import linear
from vllm.model_executor.layers.quantization import auto_gptq
from vllm.model_executor.layers.quantization.utils import replace_parameter
from vllm.model_executor.layers.quantization.utils.w8a8_utils import (
    convert_to_channelwise,
)
from vllm.platforms import PlatformEnum
from vllm.scalar_type import scalar_types

from opgraft import ops

BITS = {scalar_types.uint4b8: 4, scalar_types.uint4: 4,
        scalar_types.uint8b128: 8, scalar_types.uint8: 8}
GROUPS = (128, 64, 32)  # of opgraft's panels


def _codes(words: torch.Tensor, bits: int, count: int) -> torch.Tensor:
    """[rows, count] of bytes, from int32 of a row, the lowest bits first."""
    codes = words.contiguous().view(torch.uint8)
    if bits == 4:
        codes = torch.stack([codes & 15, codes >> 4], 2).flatten(1)
    return codes[:, :count].contiguous()


def _put(layer: torch.nn.Module, names: list[str], packed: torch.Tensor
         ) -> None:
    """In place of what the checkpoint had, the first of the names."""
    replace_parameter(layer, names[0],
                      torch.nn.Parameter(packed, requires_grad=False))
    for name in names[1:]:
        setattr(layer, name, None)


class Mixed(linear.MPLinearKernel):
    """Weights of 4 or 8 bits, with a scale and a zero for each group or row."""

    @classmethod
    def get_min_capability(cls) -> int:
        return -1

    @classmethod
    def can_implement(cls, c: Any) -> tuple[bool, str | None]:
        size = c.partition_weight_shape[0]
        if c.weight_type not in BITS:
            return False, f"weights of type {c.weight_type}"
        if c.group_size != -1 and (
                size % c.group_size != 0
                or c.group_size not in GROUPS and c.group_size % GROUPS[0]):
            return False, f"groups of {c.group_size} in {size} inputs"
        return True, None

    def _groups(self, values: torch.Tensor) -> torch.Tensor:
        """[out, groups] of the panels: a group or row may be several."""
        count = -(-self.config.partition_weight_shape[0] // self.group)
        each = -(-count // values.shape[1])
        return values.float().repeat_interleave(each, 1)[:, :count].contiguous()

    def process_weights_after_loading(self, layer: torch.nn.Module) -> None:
        c = self.config
        size, self.out = c.partition_weight_shape
        self.bits = BITS[c.weight_type]
        self.group = c.group_size if c.group_size in GROUPS else GROUPS[0]
        self.is_by_row = (self.bits == 8 and c.group_size == -1
                          and not c.zero_points)
        w, scales, zeros = self._get_weight_params(layer)
        codes = _codes(w.data.t() if w.input_dim == 0 else w.data, self.bits,
                       size)
        by_row = scales.data if scales.output_dim == 0 else scales.data.t()
        if self.is_by_row:
            packed = ops.linear_int8_prepack(
                (codes ^ 128).view(torch.int8), by_row.float().reshape(-1))
        else:
            packed = ops.linear_codes_prepack(
                codes, self._groups(by_row),
                self._groups(_codes(zeros.data.t(), self.bits, self.out).t())
                if c.zero_points else None,
                bits=self.bits, group_size=self.group)
        _put(layer, [self.w_q_name, self.w_s_name,
                     *filter(None, [self.w_zp_name])], packed)

    def apply_weights(self, layer: torch.nn.Module, x: torch.Tensor,
                      bias: torch.Tensor | None = None) -> torch.Tensor:
        packed = getattr(layer, self.w_q_name)
        if self.is_by_row:
            return ops.linear_int8(x, packed, bias, out_features=self.out)
        return ops.linear_codes(x, packed, bias, out_features=self.out,
                                bits=self.bits, group_size=self.group)


class Bytes(linear.Int8ScaledMMLinearKernel):
    """Weights of int8. Where a checkpoint rounds each row of activations by its
    own largest magnitude, so is it here; with scales of the checkpoint's or zero
    points activations keep 16 bits."""

    @classmethod
    def is_supported(cls, compute_capability: int | None = None
                     ) -> tuple[bool, str | None]:
        return True, None

    @classmethod
    def can_implement(cls, c: Any) -> tuple[bool, str | None]:
        return True, None

    def process_weights_after_loading(self, layer: torch.nn.Module) -> None:
        codes, scales = self._get_layer_params(layer)[:2]
        self.out = codes.shape[0]
        is_by_row = (self.config.input_symmetric
                     and not self.config.is_static_input_scheme)
        self.x_bits = 8 if is_by_row else 16
        if not self.config.is_channelwise:
            scales = convert_to_channelwise(scales, layer.logical_widths)
        packed = ops.linear_int8_prepack(codes.data.contiguous(),
                                         scales.data.float().reshape(-1))
        _put(layer, self.layer_param_names, packed)

    def apply_weights(self, layer: torch.nn.Module, x: torch.Tensor,
                      bias: torch.Tensor | None = None) -> torch.Tensor:
        packed = getattr(layer, self.layer_param_names[0])
        return ops.linear_int8(x, packed, bias, out_features=self.out,
                               x_bits=self.x_bits)


def install() -> None:
    """Before vLLM's own: what is registered later stands last."""
    for kernel, kind, table in (
            (Mixed, "mp", linear._POSSIBLE_KERNELS),
            (Bytes, "int8", linear._POSSIBLE_INT8_KERNELS)):
        if kernel not in table[PlatformEnum.CPU]:
            linear.register_linear_kernel(kernel, PlatformEnum.CPU, kind)
            table[PlatformEnum.CPU].insert(0, table[PlatformEnum.CPU].pop())
    # It asks a GPU's kernel which formats there are; can_implement says it.
    auto_gptq.verify_marlin_supported = lambda *args, **named: None
