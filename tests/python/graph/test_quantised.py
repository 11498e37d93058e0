# SPDX-License-Identifier: Apache-2.0
"""Weights that come as int8: ATen's product, and torch.export's dequantize
before a linear layer, become our packed product, equal to eager's within what
16 bits of x lose; where the weight is not a constant ATen runs them."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from torch.ao.quantization.fx import _decomposed  # noqa: F401  its operators

import opgraft

OPTIONS = {"mode": "max-autotune", "tune_s": 0}


class Layer(torch.nn.Module):
    """`form`: pack, ATen's product; channel and tensor, with zeros or "0"
    without; t, permute and transpose turn the weight."""

    def __init__(self, form: str, n: int, k: int, dtype: torch.dtype) -> None:
        super().__init__()
        self.form, self.dtype = form, dtype
        self.register_buffer("w", torch.randint(-128, 128, (n, k),
                                                dtype=torch.int8))
        # dequantize takes scales of f32, and ATen's product those of x.
        own = dtype if form == "pack" else torch.float32
        self.register_buffer("s", (torch.rand(n) * .01 + .001).to(own))
        self.register_buffer("z", torch.randint(-9, 9, (n,)))
        self.bias = torch.nn.Parameter(torch.randn(n).to(dtype))

    def weight(self) -> torch.Tensor:
        ops = torch.ops.quantized_decomposed
        rest = (-128, 127, torch.int8)
        if self.form.startswith("tensor"):
            zero = 0 if self.form.endswith("0") else 5
            return ops.dequantize_per_tensor(self.w, 0.01, zero, *rest,
                                             out_dtype=self.dtype)
        return ops.dequantize_per_channel(
            self.w, self.s, None if self.form.endswith("0") else self.z, 0,
            *rest, out_dtype=self.dtype)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.form == "pack":
            return torch.ops.aten._weight_int8pack_mm(x, self.w, self.s)
        w = self.weight()
        if self.form.startswith("channel"):
            return torch.nn.functional.linear(x, w, self.bias)
        return x @ (w.transpose(0, 1) if "0" in self.form else w.permute(1, 0))


def wanted(layer: Layer, x: torch.Tensor) -> torch.Tensor:
    """In double."""
    w, s, z = layer.w.double(), layer.s.double()[:, None], layer.z[:, None]
    if layer.form == "pack":
        return x.double() @ (w * s).t()
    if layer.form.startswith("tensor"):
        return x.double() @ ((w - (5 if layer.form == "tensor" else 0)) * .01).t()
    w = (w - (z if layer.form == "channel" else 0)) * s
    return x.double() @ w.t() + layer.bias.double()


def is_near(y: torch.Tensor, layer: Layer, x: torch.Tensor) -> bool:
    right = wanted(layer, x)
    most = {torch.float32: 1e-4, torch.bfloat16: 2e-2, torch.float16: 3e-3}
    return bool((y.double() - right).norm() <= most[layer.dtype] * right.norm())


@pytest.mark.parametrize("form, dtype", [
    ("pack", torch.float32), ("pack", torch.bfloat16),
    ("channel", torch.float32), ("channel", torch.float16),
    ("channel0", torch.bfloat16), ("tensor", torch.float32),
    ("tensor0", torch.float32)])
def test_int8_weights_stay_int8(form: str, dtype: torch.dtype) -> None:
    torch.manual_seed(len(form))
    layer = Layer(form, 95, 300, dtype)
    torch._dynamo.reset()
    f = torch.compile(layer, backend="opgraft", options=OPTIONS, dynamic=True)
    with torch.no_grad():
        for m in (5, 33, 1):
            x = torch.randn(m, 300).to(dtype)
            assert is_near(f(x), layer, x)
        told = opgraft.stats(f)
        assert told.fallbacks == []
        assert told.quantised_weights == len(told.graphs) and told.quantised_error == 0
        frozen = opgraft.freeze(layer, (x,), options=OPTIONS)
        assert is_near(frozen(x), layer, x)
        assert json.loads(frozen.graph.stats())["quantised_weights"] == 1
        for change in (lambda: None, lambda: layer.w.neg_(),
                       lambda: layer.w[3].fill_(7), lambda: layer.s.mul_(2)):
            change()  # is seen
            for call in (f, frozen):
                assert is_near(call(x), layer, x)


@pytest.mark.parametrize("mode", ["default", "max-autotune"])
def test_weights_that_do_not_stay(mode: str) -> None:
    """As ATen computes them; so does a graph that keeps no weights."""
    torch.manual_seed(2)
    x, s = torch.randn(7, 300), torch.rand(64) + 1
    w = torch.randint(-128, 128, (64, 300), dtype=torch.int8)
    f = torch.compile(torch.ops.aten._weight_int8pack_mm, backend="opgraft",
                      options={**OPTIONS, "mode": mode})
    y = torch.ops.aten._weight_int8pack_mm(x, w, s)
    assert torch.equal(f(x, w, s), y)
    layer = Layer("pack", 64, 300, torch.float32)
    g = torch.compile(layer, backend="opgraft")
    assert torch.equal(g(x), layer(x)) and opgraft.stats(g).host_nodes == 1
    assert opgraft.stats(f).host_nodes == 1


def test_files_with_int8(tmp_path: Any) -> None:
    """The file has the numbers as they are, and their panels."""
    torch.manual_seed(3)
    layer, x = Layer("pack", 200, 300, torch.float32), torch.randn(3, 300)
    path = tmp_path / "m.og"
    for packed in (False, True):
        opgraft.export(layer, (x,), path, packed=packed)
        call = opgraft.load_graph(path)
        assert is_near(call(x), layer, x)
        told = json.loads(call.graph.stats())
        assert (told["mapped_bytes"] > 0) is packed
        assert (told["packed_bytes"] > 0) is not packed


class FourBits(torch.nn.Module):
    """A layer in one of ATen's forms of 4 bits."""

    def __init__(self, form: str, n: int, k: int, group: int,
                 dtype: torch.dtype) -> None:
        super().__init__()
        aten = torch.ops.aten
        self.form, self.group, self.shape = form, group, (n, k)
        codes = torch.randint(0, 16, (n, k))
        scales = torch.rand(n, k // group) * .01 + .001
        zeros = torch.zeros_like(scales)
        self.x_dtype = dtype
        self.bias = 0
        if form == "int4pack":
            zeros = torch.randn(n, k // group) * .01
            both = torch.stack([scales.t(), zeros.t()], 2).to(dtype).contiguous()
            scales, zeros = (t.t().float() for t in both.unbind(2))
            self.register_buffer("s", both)
            self.register_buffer("w", aten._convert_weight_to_int4pack_for_cpu(
                codes.int(), 1))
        else:
            pairs = (codes[:, ::2] | codes[:, 1::2] << 4).to(torch.uint8)
            self.bias = torch.randn(n) if form == "dyn_bias" else 0
            self.register_buffer("w", aten._dyn_quant_pack_4bit_weight(
                pairs, scales, self.bias if form == "dyn_bias" else None, group,
                k, n))
        def spread(t: torch.Tensor) -> torch.Tensor:
            return t.double().repeat_interleave(group, 1)

        self.full = (codes.double() - 8) * spread(scales) + spread(zeros)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        aten = torch.ops.aten
        n, k = self.shape
        if self.form == "int4pack":
            return aten._weight_int4pack_mm_for_cpu(x, self.w, self.group, self.s)
        return aten._dyn_quant_matmul_4bit(x, self.w, self.group, k, n)


@pytest.mark.parametrize("form, n, group, dtype", [
    ("int4pack", 64, 32, torch.float32), ("int4pack", 176, 64, torch.bfloat16),
    ("int4pack", 80, 128, torch.float16), ("int4pack", 128, 256, torch.float32),
    ("dyn", 48, 32, torch.float32), ("dyn_bias", 40, 64, torch.float32),
    ("dyn_bias", 40, 512, torch.float32)])
def test_four_bits_of_aten(form: str, n: int, group: int, dtype: torch.dtype
                           ) -> None:
    """A frozen graph multiplies by the codes; a compiled one leaves them to
    ATen."""
    torch.manual_seed(n)
    layer = FourBits(form, n, 512, group, dtype)
    x = torch.randn(7, 512).to(dtype)
    f = opgraft.freeze(layer, (x,), options=OPTIONS)
    assert json.loads(f.graph.stats())["host_nodes"] == 0
    right = x.double() @ layer.full.t() + layer.bias
    eager = layer(x).double()
    # Scales and zeros are rounded to f16; eager rounds x to 8 bits, too.
    for found, most in ((f(x).double(), 4e-4), (eager, 2e-2)):
        assert (found - right).norm() <= (
            most + torch.finfo(dtype).eps) * right.norm()
    g = torch.compile(layer, backend="opgraft", options=OPTIONS)
    assert torch.equal(g(x).double(), eager)
