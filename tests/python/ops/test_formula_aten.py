# SPDX-License-Identifier: Apache-2.0
"""Formulas as functions of ATen operators."""

from __future__ import annotations

import itertools
from typing import Any

import formula_grow
import pytest
import torch

import opgraft
from opgraft._base.rules import DTYPES

# Operator, shape, row, sizes.
KNOWN: list[tuple[str, str | None, str, list[tuple[int, ...]]]] = [
    ("softmax(Tensor x) -> Tensor", "x[*N, D] -> [*N, D]",
     "e = exp(x - row_max(x)); y = e / row_sum(e)", [(5, 3, 33)]),
    ("log_softmax(Tensor x) -> Tensor", "x[*N, D] -> [*N, D]",
     "t = x - row_max(x); y = t - log(row_sum(exp(t)))", [(5, 33)]),
    ("layer_norm(Tensor x, Tensor? w=None, Tensor? b=None, float eps=1e-5) -> "
     "Tensor", "x[*N, D], w?[D], b?[D] -> [*N, D]",
     "t = x - row_mean(x); y = t / sqrt(row_mean(t * t) + eps); y = y * w; "
     "y = y + b", [(5, 33), (33,), (33,)]),
    ("gelu(Tensor x) -> Tensor", None, "x * half * (1 + erf(x * sqrt_half))",
     [(5, 33)]),
    ("geglu(Tensor a, Tensor b) -> Tensor", None,
     "a * half * (1 + erf(a * sqrt_half)) * b", [(5, 33), (33,)]),
    ("swiglu(Tensor a, Tensor b) -> Tensor", None, "a * sigmoid(a) * b",
     [(5, 33), (5, 1)]),
    ("min_p(Tensor x, float p=0.1) -> Tensor", "x[*N, D] -> [*N, D]",
     "y = select(x < row_max(x) + log(p), -infinity, x)", [(5, 33)]),
    ("masked(Tensor x, Tensor mask) -> Tensor",
     "x[B, H, D], mask[B, 1, D] -> [B, H, D]",
     "t = select(mask > 0, x, -infinity); e = exp(t - row_max(t)); "
     "y = e / row_sum(e)", [(2, 3, 17), (2, 1, 17)]),
    ("columns(Tensor x, Tensor k) -> (Tensor, Tensor, Tensor)",
     "x[*N, D], k[D] -> [D], [], [*N]",
     "y0 = sum_rows(x * k); y1 = sum_rows(row_sum(x)); y2 = row_mean(x)",
     [(5, 3, 33), (33,)]),
    ("truth(Tensor x) -> Tensor", None,
     "y = (x > 0 and x < 1 or not x > -1) * max(x, 0, -x)", [(5, 33)]),
]


def _inputs(sizes: list[tuple[int, ...]]) -> list[torch.Tensor]:
    made = torch.Generator().manual_seed(3)
    return [torch.randn(s, generator=made, dtype=torch.float64) for s in sizes]


def _all(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _defined(formula: Any) -> tuple[Any, Any]:
    schema, shape, row, _ = formula
    name = schema.partition("(")[0]
    f = opgraft.define(schema, row=row, shape=shape, name=f"aten::{name}"
                       .replace("aten", "as_aten"))
    op = getattr(torch.ops.as_aten, name).default
    return f, opgraft.decompositions()[op]


@pytest.mark.parametrize("formula", KNOWN, ids=lambda f: f[0].split("(")[0])
def test_known_operators(formula: Any) -> None:
    """The engine's f64 and f32 beside ATen's float64."""
    f, plain = _defined(formula)
    wide = _inputs(formula[3])
    for found, exact in zip(_all(f(*wide)), _all(plain(*wide)), strict=True):
        torch.testing.assert_close(found, exact, rtol=1e-12, atol=1e-12)
    narrow = [t.float() for t in wide]
    exact = plain(*(t.double() for t in narrow))
    for found, value in zip(_all(f(*narrow)), _all(exact), strict=True):
        torch.testing.assert_close(found.double(), value, rtol=2e-6, atol=2e-6)
    if "?" in formula[0]:
        torch.testing.assert_close(f(wide[0]), plain(wide[0]))


def test_random_formulas() -> None:
    compared = 0
    for seed in range(60):
        formula = formula_grow.grow(seed)
        f = opgraft.define(
            formula.schema, row=formula.row, shape=formula.shape,
            dtype=formula_grow.TYPES.replace("f32", "f64"),
            name=f"as_aten::f{seed}")
        op = getattr(torch.ops.as_aten, f"f{seed}").default
        plain = opgraft.decompositions()[op]
        inputs = [torch.from_numpy(t) for t in formula.tensors]
        inputs = [t.double() if t.is_floating_point() else t for t in inputs]
        for found, exact in zip(*(g(*inputs, formula.number)
                                  for g in (f, plain)), strict=True):
            is_known = exact.isfinite() & (exact.abs() < 1e30)
            size = float(exact[is_known].abs().max()) if is_known.any() else 1.0
            torch.testing.assert_close(found[is_known], exact[is_known],
                                       rtol=1e-9, atol=1e-12 * size + 1e-12,
                                       msg=f"{formula.row}: seed {seed}")
            compared += int(is_known.sum())
    print(f"{compared} elements compared with ATen's")
    assert compared > 1000


@pytest.mark.parametrize("function", """
    exp sqrt erf floor abs row_sum row_mean
    """.split())
def test_types_are_those_of_a_call(function: str) -> None:
    """C decides what is computed in by the result's type as well."""
    compared = 0
    for given, result in itertools.product(
            ("u8", "i32", "i64", "f16", "f32", "f64"), repeat=2):
        name = f"{function}_{given}_{result}"
        f = opgraft.define(f"{name}(Tensor x, Scalar k) -> Tensor",
                           row=f"y = {function}(x + k)", name=f"as_aten::{name}",
                           shape="x[*N, D] -> [*N, D]",
                           dtype=f"x: {given} -> {result}")
        plain = opgraft.decompositions()[getattr(torch.ops.as_aten, name).default]
        x = torch.tensor([[0, 2, 3], [4, 1, 4]]).to(DTYPES[given])
        for k in (1, 0.5):
            found, exact = f(x, k), plain(x, k)
            assert found.dtype == exact.dtype
            torch.testing.assert_close(found, exact, equal_nan=True, msg=name)
            compared += 1
    assert compared == 72


def test_results_share_no_memory() -> None:
    pair = opgraft.define("pair(Tensor x) -> (Tensor a, Tensor b)",
                          row="a = x; b = a", name="as_aten::pair")
    x = torch.zeros(4)
    for f in (pair, opgraft.decompositions()[torch.ops.as_aten.pair.default]):
        a, b = f(x)
        a.add_(1)
        assert x.sum() == 0 and b.sum() == 0


def test_export_decomposes() -> None:
    f, _ = _defined(KNOWN[0])

    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return f(x) * 2

    x = torch.randn(3, 5, 7)
    program = torch.export.export(Model(), (x,))
    plain = program.run_decompositions(opgraft.decompositions())
    names = {str(n.target) for n in plain.graph.nodes}
    assert not any("as_aten" in name for name in names)
    torch.testing.assert_close(plain.module()(x), x.softmax(-1) * 2)


@pytest.mark.full
def test_inductor_fuses_it_with_its_gradient() -> None:
    from torch._inductor.utils import run_and_get_code

    f, _ = _defined(KNOWN[5])

    def step(a: torch.Tensor, b: torch.Tensor) -> Any:
        return torch.autograd.grad((f(a, b) * 2).sum(), (a, b))

    torch._dynamo.reset()
    a, b = (torch.randn(4, 9, requires_grad=True) for _ in range(2))
    compiled = torch.compile(lambda a, b: f(a, b) * 2, backend="inductor",
                             fullgraph=True)
    found, code = run_and_get_code(
        lambda: torch.autograd.grad(compiled(a, b).sum(), (a, b)))
    torch.testing.assert_close(found, step(a, b))
    assert code and not any(
        call in text for text in code
        for call in ("extern_kernels.opgraft", "ops.as_aten"))


def test_a_device_without_a_kernel_runs_it() -> None:
    f, _ = _defined(KNOWN[0])
    kernel = torch._C._dispatch_has_kernel_for_dispatch_key(
        "as_aten::softmax", "CompositeExplicitAutograd")
    assert kernel and f(torch.empty(2, 3, device="meta")).shape == (2, 3)
