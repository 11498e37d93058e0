# SPDX-License-Identifier: Apache-2.0
"""linear and fused_moe, packed and not, against float64."""

from __future__ import annotations

import functools
from typing import Any

import oracle
import pytest
import torch
import torch.nn.functional as F
from oracle import TYPES

SIZES = [(1, 64, 48), (3, 65, 70), (5, 100, 33), (40, 257, 129), (130, 64, 17),
         (0, 8, 8), (2, 0, 5), (16, 512, 96),
         (70, 4096, 40)]  # several blocks of rows
ACTIVATIONS = {
    "none": lambda x: x,
    "silu": F.silu,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "relu": F.relu,
}


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("size", SIZES)
def test_linear(
    ops: Any, covers: Any, dtype: torch.dtype, size: tuple[int, int, int]
) -> None:
    m, k, n = size
    x, w, b = (torch.randn(*s).to(dtype) for s in ((m, k), (n, k), (n,)))
    wanted = F.linear(x.double(), w.double(), b.double())
    own = F.linear(x, w, b)
    oracle.close(ops.linear(x, w, b), wanted, own)
    packed = ops.linear_prepack(w)
    for name, activation in ACTIVATIONS.items():
        found = ops.linear_packed(
            x, packed, b, out_features=n, activation=name)
        oracle.close(found, activation(wanted), activation(own))
    covers("linear", dtype, "sizes")
    covers("linear_packed", dtype, "activations")
    covers("linear_prepack", dtype, "sizes")


def codes_of(n: int, k: int, bits: int, group: int, dtype: torch.dtype
             ) -> tuple[Any, Any, Any, Any]:
    """Codes in groups, with scales of a type that checkpoints have, zeros or
    None, and the weights in f64."""
    codes = torch.randint(0, 2 ** bits, (n, k))
    size = n, -(-k // group)
    scales = (torch.rand(size) / 9 * 16 / 2 ** bits).to(dtype).float()
    zeros = None if group == 64 else torch.randint(0, 2 ** bits, size).float()
    middle = torch.full(size, 2.0 ** (bits - 1)) if zeros is None else zeros

    def spread(t: Any) -> Any:
        return t.double().repeat_interleave(group, 1)[:, :k]

    w = spread(scales) * (codes.double() - spread(middle))
    return codes.to(torch.uint8), scales, zeros, w


def packed_of(ops: Any, kind: str, n: int, k: int, dtype: torch.dtype
              ) -> tuple[Any, Any, Any]:
    """The packed weights, in f64, and the product with them."""
    if kind == "int8":
        codes = torch.randint(-128, 128, (n, k), dtype=torch.int8)
        scales = torch.rand(n) / 99
        return (ops.linear_int8_prepack(codes, scales),
                codes.double() * scales.double()[:, None], ops.linear_int8)
    bits, group = map(int, kind.split("/"))
    # Of f32, scales are rounded to f16.
    *given, w = codes_of(n, k, bits, group,
                         torch.float16 if dtype == torch.float32 else dtype)
    how = {"bits": bits, "group_size": group}
    return (ops.linear_codes_prepack(*given, **how), w,
            functools.partial(ops.linear_codes, **how))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("kind", ["int8", "4/32", "4/64", "4/128", "8/32",
                                  "8/64", "8/128"])
def test_linear_of_codes(
    ops: Any, covers: Any, dtype: torch.dtype, kind: str
) -> None:
    for m, k, n in SIZES:
        x, b = torch.randn(m, k).to(dtype), torch.randn(n).to(dtype)
        packed, w, run = packed_of(ops, kind, n, k, dtype)
        short_rows_check(run, packed, w, x, b)
        wanted = F.linear(x.double(), w, b.double())
        # What an element of x is off by, through all weights of a column; sums
        # in f32; the result's own rounding.
        most = x.double().abs().amax(1, keepdim=True) if k else x.sum(1)[:, None]
        off = most * (w.abs().sum(1) * (1 / 65278 + 2e-6)) + 1e-6
        for name in ACTIVATIONS if m == 3 else ["none"]:
            found = run(x, packed, b, out_features=n, activation=name)
            y = ACTIVATIONS[name](wanted)
            assert found.dtype == dtype
            bound = 1.2 * off + torch.finfo(dtype).eps * (y.abs() + 1)
            assert ((found.double() - y).abs() <= bound).all(), (m, k, n, name)
    name = "linear_int8" if kind == "int8" else "linear_codes"
    covers(name, dtype, "codes")
    covers(f"{name}_prepack", None, "codes")


def short_rows_check(run: Any, packed: Any, w: Any, x: Any, b: Any) -> None:
    """Rows of 8 bits: float64 of the rows as they are rounded; each row alone
    gives the same bits."""
    y = run(x, packed, b, out_features=len(b), x_bits=8)
    most = x.float().abs().amax(1, keepdim=True).clamp(min=2.0 ** -100) \
        if x.shape[1] else x.float().sum(1, keepdim=True) + 1
    near = torch.round(x.float() * (torch.full_like(most, 127) / most)).double() * (most / 127).double()
    wanted = F.linear(near, w, b.double())
    bound = 4e-6 * (near.abs() @ w.abs().t()) + 1e-6 \
        + 1.2 * torch.finfo(x.dtype).eps * (wanted.abs() + 1)
    assert ((y.double() - wanted).abs() <= bound).all()
    for r in range(0, len(x), 7):
        alone = run(x[r:r + 1], packed, b, out_features=len(b), x_bits=8)
        assert torch.equal(alone[0], y[r])


def test_codes_that_are_refused(ops: Any) -> None:
    codes, scales, zeros, _ = codes_of(20, 66, 4, 32, torch.float32)
    with pytest.raises(RuntimeError, match="group_size"):
        ops.linear_codes_prepack(codes, scales, zeros, group_size=48)
    scales[19, 2] = float("inf")
    with pytest.raises(RuntimeError, match="is not finite"):
        ops.linear_codes_prepack(codes, scales, zeros, group_size=32)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("with_bias", [False, True])
def test_linear_gradient(
    ops: Any, covers: Any, dtype: torch.dtype, with_bias: bool
) -> None:
    given = [torch.randn(s).to(dtype) for s in ((7, 3, 50), (90, 50), (90,))]
    given = given if with_bias else given[:2]
    low = [t.clone().requires_grad_() for t in given]
    high = [t.double().requires_grad_() for t in given]
    same = [t.clone().requires_grad_() for t in given]
    y, z = ops.linear(*low), F.linear(*high)
    grad = torch.randn(z.shape).to(dtype)
    y.backward(grad)
    z.backward(grad.double())
    F.linear(*same).backward(grad)
    for a, b, c in zip(low, high, same, strict=True):
        assert c.grad is not None
        oracle.close(a.grad, b.grad, c.grad)
    covers("linear", dtype, "gradient")


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("activation", ["silu", "gelu", "gelu_tanh",
                                        "swigluoai"])
@pytest.mark.parametrize("tokens, experts, topk", [(1, 8, 2), (7, 4, 2),
                                                   (64, 5, 4)])
def test_fused_moe(
    ops: Any, covers: Any, dtype: torch.dtype, activation: str, tokens: int,
    experts: int, topk: int
) -> None:
    width, inner = 50, 36
    x = torch.randn(tokens, width).to(dtype)
    w13 = (torch.randn(experts, 2 * inner, width) / 7).to(dtype)
    w2 = (torch.randn(experts, width, inner) / 6).to(dtype)
    b13 = torch.randn(experts, 2 * inner).to(dtype)
    b2 = torch.randn(experts, width).to(dtype)
    ids = torch.stack([torch.randperm(experts)[:topk] for _ in range(tokens)])
    ids = ids.to(torch.int32)
    if tokens == 7:
        ids[2, 1] = -1
    weights = torch.rand(tokens, topk)
    packed = ops.fused_moe_prepack(w13), ops.fused_moe_prepack(w2)
    for biases in ((b13, b2), (None, None)):
        found = ops.fused_moe(x, *packed, weights, ids, *biases, inner=inner,
                              activation=activation)
        arguments = (x, w13, w2, weights, ids, *biases, activation)
        oracle.close(found, oracle.moe(*arguments),
                     oracle.moe(*arguments, dtype))
    ids[0, 0] = experts
    with pytest.raises(RuntimeError, match=r"topk_ids\[0, 0\] is"):
        ops.fused_moe(x, *packed, weights, ids, inner=inner)
    covers("fused_moe", dtype, "activations, biases, skipped ids")
    covers("fused_moe_prepack", dtype, "sizes")
