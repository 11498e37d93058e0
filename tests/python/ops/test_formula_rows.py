# SPDX-License-Identifier: Apache-2.0
"""Formulas that read and add rows by an index, run along rows, round to types,
and put parts of rows together, with their derivatives."""

from __future__ import annotations

from typing import Any, Callable

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

import opgraft

# Operator, shape, row, sizes of tensors (an int: an index below it, of the last
# size that is given), and what it is by PyTorch.
KNOWN: list[tuple[str, str, str, list[Any], Callable[..., Any]]] = [
    ("embed(Tensor table, Tensor i) -> Tensor",
     "table[V, D], i[*N] -> [*N, D]", "y = table[i] * 2",
     [(5, 7), (5, (3, 4))], lambda t, i: t[i] * 2),
    ("add_two(Tensor x, Tensor t, Tensor i, Tensor j) -> Tensor",
     "x[B, T, D], t[V, D], i[B, T], j[T] -> [B, T, D]",
     "y = x * t[i] + exp(t[j])", [(2, 6, 3), (4, 3), (4, (2, 6)), (4, (6,))],
     lambda x, t, i, j: x * t[i] + t[j].exp()),
    ("scales(Tensor x, Tensor s, Tensor e) -> Tensor",
     "x[*N, D], s[E], e[*N] -> [*N, D]", "y = x * s[e] + row_sum(x)",
     [(2, 3, 5), (3,), (3, (2, 3))],
     lambda x, s, e: x * s[e][..., None] + x.sum(-1, keepdim=True)),
    ("heads(Tensor x, Tensor t, Tensor i) -> Tensor",
     "x[N, H, D], t[V, H, D], i[N] -> [N, H, D]",
     "a = x * t[i]; y = a * rsqrt(row_mean(a * a) + 1)",
     [(4, 2, 3), (3, 2, 3), (3, (4,))],
     lambda x, t, i: (x * t[i]) * ((x * t[i]).pow(2).mean(-1, keepdim=True)
                                   + 1).rsqrt()),
    ("grouped(Tensor x, Tensor i, Tensor size) -> Tensor",
     "x[*N, D], i[*N], size[V, D] -> [V, D]", "y = add_rows(x * x, i)",
     [(9, 3), (4, (9,)), (4, 3)],
     lambda x, i, size: torch.zeros_like(size).index_add(0, i, x * x)),
    ("segments(Tensor x, Tensor i, int n=4) -> Tensor",
     "x[*N, D], i[*N] -> [n, D]", "y = add_rows(x * x, i)", [(9, 3), (4, (9,))],
     lambda x, i: torch.zeros(4, 3, dtype=x.dtype).index_add(0, i, x * x)),
    ("sums(Tensor x) -> (Tensor, Tensor)", "x[*N, D] -> [*N, D], [*N, D]",
     "y0 = row_cumsum(x * x); y1 = row_cumsum_reversed(x) * y0",
     [(3, 6)], lambda x: ((x * x).cumsum(-1),
                          x.flip(-1).cumsum(-1).flip(-1) * (x * x).cumsum(-1))),
    ("survival(Tensor x, Tensor w) -> Tensor", "x[*N, D], w[D] -> [*N, D]",
     "e = exp(x); y = row_cumsum(e * w) / row_sum(e)", [(2, 3, 5), (5,)],
     lambda x, w: (x.exp() * w).cumsum(-1) / x.exp().sum(-1, keepdim=True)),
    ("swiglu(Tensor x) -> Tensor", "x[*N, D] -> [*N, D // 2]",
     "a, b = halves(x); y = a * sigmoid(a) * b", [(2, 3, 8)],
     lambda x: torch.nn.functional.silu(x.chunk(2, -1)[0]) * x.chunk(2, -1)[1]),
    ("rotary(Tensor x, Tensor c, Tensor s) -> Tensor",
     "x[*N, T, D], c[T, D // 2], s[T, D // 2] -> [*N, T, D]",
     "a, b = pairs(x); y = interleave(a * c - b * s, b * c + a * s)",
     [(2, 3, 6), (3, 3), (3, 3)],
     lambda x, c, s: torch.stack((
         x[..., ::2] * c - x[..., 1::2] * s,
         x[..., 1::2] * c + x[..., ::2] * s), -1).flatten(-2)),
    ("turned(Tensor x, Tensor c, Tensor p) -> Tensor",
     "x[*N, T, D], c[M, D], p[T] -> [*N, T, D]", "y = x * c[p] + c[p]",
     [(2, 3, 6), (5, 6), (5, (3,))], lambda x, c, p: x * c[p] + c[p]),
    ("both(Tensor x, Tensor g) -> Tensor", "x[*N, D], g[D] -> [*N, D]",
     "a, b = halves(x); p, q = halves(g); y = join(a * q, b * p + a)",
     [(4, 6), (6,)],
     lambda x, g: torch.cat((
         x[..., :3] * g[3:], x[..., 3:] * g[:3] + x[..., :3]), -1)),
]
IDS = [f[0].split("(")[0] for f in KNOWN]


def _tensors(sizes: list[Any], dtype: torch.dtype = torch.float64,
             seed: int = 1) -> list[torch.Tensor]:
    made = torch.Generator().manual_seed(seed)
    return [torch.randint(size[0], size[1], generator=made)
            if isinstance(size[-1], tuple)
            else torch.randn(size, generator=made).to(dtype) for size in sizes]


def _all(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _defined(formula: Any) -> Any:
    schema, shape, row, *_ = formula
    return opgraft.define(schema, row=row, shape=shape,
                          name=f"rows::{schema.partition('(')[0]}")


@pytest.mark.parametrize("formula", KNOWN, ids=IDS)
def test_values(formula: Any) -> None:
    f = _defined(formula)
    by_aten = opgraft.decompositions()[
        getattr(torch.ops.rows, formula[0].partition("(")[0]).default]
    for dtype, bound in ((torch.float64, 1e-12), (torch.float32, 2e-6),
                         (torch.bfloat16, 8e-3)):
        tensors = _tensors(formula[3], dtype)
        wide = [t.double() if t.is_floating_point() else t for t in tensors]
        found, exact = _all(f(*tensors)), _all(formula[4](*wide))
        for own, plain, value in zip(found, _all(by_aten(*tensors)), exact,
                                     strict=True):
            assert own.dtype == dtype and own.shape == value.shape
            for y in (own, plain):
                torch.testing.assert_close(y.double(), value, rtol=bound,
                                           atol=bound)


@pytest.mark.parametrize("formula", KNOWN, ids=IDS)
def test_derivatives_by_differences(formula: Any) -> None:
    f = _defined(formula)
    tensors = [t.requires_grad_() if t.is_floating_point() else t
               for t in _tensors(formula[3])]
    assert gradcheck(f, tensors, check_forward_ad=True, fast_mode=True)
    assert gradgradcheck(f, tensors, check_fwd_over_rev=True, fast_mode=True)


@pytest.mark.parametrize("name, mode", [
    *((name, "max-autotune") for name in IDS),
    ("add_two", "inductor"), ("survival", "inductor")])
def test_compiled(name: str, mode: str) -> None:
    formula = KNOWN[IDS.index(name)]
    f = _defined(formula)
    tensors = [t.requires_grad_() if t.is_floating_point() else t
               for t in _tensors(formula[3], torch.float32)]
    torch._dynamo.reset()
    options: dict[str, Any] = (
        {"backend": "inductor"} if mode == "inductor"
        else {"backend": "opgraft", "options": {"mode": mode}})
    smooth = [t for t in tensors if t.requires_grad]

    def step(*x: torch.Tensor) -> Any:
        return sum(y.sin().sum() for y in _all(f(*x)))

    compiled = torch.compile(step, fullgraph=True, **options)
    torch.testing.assert_close(
        torch.autograd.grad(compiled(*tensors), smooth, allow_unused=True),
        torch.autograd.grad(step(*tensors), smooth, allow_unused=True))


def test_rows_are_added_in_order_on_any_number_of_threads() -> None:
    """As index_add in float64 does, rounded once, into bf16 too; and beside a
    sum over rows."""
    f = opgraft.define(
        "two_sums(Tensor x, Tensor i, Tensor size) -> (Tensor, Tensor)",
        shape="x[*N, D], i[*N], size[V, D] -> [V, D], [D]",
        row="y0 = add_rows(x, i); y1 = sum_rows(x)", name="rows::two_sums")
    for dtype in (torch.float32, torch.bfloat16):
        x = torch.randn(3000, 65).to(dtype)
        i = torch.randint(70, (3000,)) // 2 * 2  # odd rows get nothing
        size = torch.empty(70, 65, dtype=dtype)
        exact = torch.zeros(70, 65, dtype=torch.float64).index_add(
            0, i, x.double())
        threads = torch.get_num_threads()
        found = []
        try:
            for n in (1, 4):
                torch.set_num_threads(n)
                found.append(f(x, i, size))
                found.append(f(x.t().contiguous().t(), i, size))
        finally:
            torch.set_num_threads(threads)
        assert torch.equal(found[0][0], exact.to(dtype))
        for other in found[1:]:
            assert all(map(torch.equal, other, found[0]))


@pytest.mark.parametrize("width", [0, 1, 7, 4096, 128_000])
def test_long_rows(width: int) -> None:
    sums = opgraft.define("running(Tensor x) -> Tensor", name="rows::running",
                          shape="x[*N, D] -> [*N, D]", row="row_cumsum(x)")
    x = torch.randn(3, width)
    torch.testing.assert_close(sums(x), x.double().cumsum(-1).float(),
                               rtol=1e-6, atol=1e-5)
    whole = opgraft.define(
        "running_whole(Tensor x) -> Tensor", name="rows::running_whole",
        shape="x[*N, D] -> [*N, D]", dtype="x: int64 -> int64",
        row="row_cumsum(x)")
    n = torch.randint(-2**62, 2**62, (2, width))
    assert torch.equal(whole(n), n.cumsum(-1))  # wraps, as PyTorch's


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_rounding_where_it_is_meant(dtype: torch.dtype) -> None:
    """To the bits of PyTorch's conversion: of every exponent, of ties, beside
    what overflows, and of no numbers."""
    name = {torch.float16: "f16", torch.bfloat16: "bf16"}[dtype]
    f = opgraft.define(f"as_{name}(Tensor x) -> Tensor",
                       row=f"round_to(x, {name})", name=f"rows::as_{name}")
    bits = torch.randint(-2**31, 2**31, (200_000,)).to(torch.int32)
    ties = torch.arange(0, 1 << 16).to(torch.int32)[:, None] << 16
    single = torch.cat((bits, (ties + torch.tensor([0, 1 << 15, (1 << 15) + 1, 4096,
                                               12288], dtype=torch.int32)
                          ).flatten())).view(torch.float32)
    for x in (single, single.double() * 1.0000001):
        expected = x.to(dtype).to(x.dtype)
        found = f(x)
        is_nan = expected.isnan()
        assert torch.equal(found.isnan(), is_nan)
        assert torch.equal(found[~is_nan], expected[~is_nan])
        assert torch.equal(found[~is_nan].signbit(),
                           expected[~is_nan].signbit())


def test_rounding_to_an_arguments_type() -> None:
    """The norm of Hugging Face's Llama, which rounds before it scales."""
    f = opgraft.define(
        "llama_norm(Tensor x, Tensor w, float eps=1e-6) -> Tensor",
        shape="x[*N, D], w[D] -> [*N, D]", name="rows::llama_norm",
        row="y = round_to(x * rsqrt(row_mean(x * x) + eps), x) * w")
    for dtype in (torch.bfloat16, torch.float32):
        x, w = torch.randn(40, 64).to(dtype), torch.randn(64).to(dtype)
        wide = x.double()
        hidden = wide * (wide.pow(2).mean(-1, keepdim=True) + 1e-6).rsqrt()
        expected = hidden.to(dtype) * w
        found = f(x, w)
        unequal = (found != expected).float().mean()
        assert unequal < (0.01 if dtype == torch.bfloat16 else 1)
        torch.testing.assert_close(found, expected)
        torch._dynamo.reset()
        compiled = torch.compile(f, backend="inductor", fullgraph=True)
        assert torch.equal(compiled(x, w), found)
    x = torch.randn(3, 8, dtype=torch.float64, requires_grad=True)
    w = torch.randn(8, dtype=torch.float64, requires_grad=True)
    assert gradcheck(f, (x, w), check_forward_ad=True)


def test_an_index_out_of_range_is_named() -> None:
    f = opgraft.define("chosen(Tensor t, Tensor i) -> Tensor",
                       shape="t[V, D], i[*N] -> [*N, D]", row="t[i]",
                       name="rows::chosen")
    t = torch.randn(3, 2)
    for bad in (3, -1):
        with pytest.raises((RuntimeError, ValueError, IndexError),
                           match=f"row 1: an index is out of range: found "
                                 f"{bad}, expected one of 3 rows"):
            f(t, torch.tensor([2, bad]))
    assert f(t, torch.zeros(0, dtype=torch.int64)).shape == (0, 2)
    for dtype in (torch.int32, torch.int64):
        assert torch.equal(f(t.t().contiguous().t(),
                             torch.tensor([2, 0], dtype=dtype)), t[[2, 0]])


@pytest.mark.parametrize("row, said", [
    ("t[x]", "no tensor has all dims of a formula"),
    ("t[0]", "expected a tensor argument of integers"),
    ("t[i] + t", "t is read as a row and by an index"),
    ("k[i]", "'k' has no rows to choose"),
    ("round_to(x, int8)", "expected bf16, f16, f32, f64 or a tensor argument"),
    ("row_topk(x)", "the k largest and recurrences stay kernels"),
    ("sort(x)", "a formula has no sort"),
    ("1 + add_rows(x, i)", "stands alone on the right side of a result"),
])
def test_what_a_formula_may_not_say(row: str, said: str) -> None:
    with pytest.raises((RuntimeError, ValueError), match=said):
        opgraft.define(
            "wrong(Tensor x, Tensor t, Tensor i, float k=1.0) -> Tensor",
            shape="x[N, D], t[V, D], i[N] -> [N, D]", row=row,
            dtype="x: f32, t: f32, i: int64 -> f32", name="rows::wrong")
