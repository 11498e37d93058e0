# SPDX-License-Identifier: Apache-2.0
"""Derivatives of formulas: gradients to any order, and forward mode."""

from __future__ import annotations

import ast
import functools
from typing import Any, Callable

import formula_grow
import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

import opgraft

# --- The same text by PyTorch ---------------------------------------------------


def _pairs(f: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *values: functools.reduce(f, map(torch.as_tensor, values))


def _rows(f: Callable[..., Any], x: Any, width: int) -> Any:
    x = torch.as_tensor(x, dtype=torch.float64)
    shape = (*(x.shape[:-1] if x.dim() else ()), width)
    return f(x.expand(shape), -1, keepdim=True)


def _along(x: torch.Tensor, width: int) -> torch.Tensor:
    return x.expand(*(x.shape[:-1] if x.dim() else ()), width)


class _Numbers(ast.NodeTransformer):
    """Comparisons as numbers."""

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        return ast.Call(ast.Name("number", ast.Load()), [node], [])


def by_torch(row: str, values: dict[str, Any], width: int) -> dict[str, Any]:
    """The formula's text, which is Python's too, over PyTorch's functions."""
    def number(x: Any) -> Any:
        return torch.as_tensor(x, dtype=torch.float64)

    names: dict[str, Any] = {
        name: lambda x, name=name: getattr(torch, name)(number(x))
        for name in ("exp log sqrt rsqrt tanh sigmoid erf abs sin cos log1p "
                     "expm1").split()}
    names |= {
        "max": _pairs(torch.maximum), "min": _pairs(torch.minimum),
        "select": lambda c, a, b: torch.where(
            torch.as_tensor(c != 0), number(a), number(b)),
        "pow": lambda a, b: torch.pow(number(a), number(b)),
        "width": width, "infinity": float("inf"), **values}
    for name, f in {"sum": torch.sum, "mean": torch.mean, "max": torch.amax,
                    "min": torch.amin}.items():
        names[f"row_{name}"] = functools.partial(_rows, f, width=width)
    names |= {"number": number, "column": number(torch.arange(width)),
              "row": number(torch.arange(formula_grow.ROWS)[:, None])}
    for name, f in {"argmax": torch.argmax, "argmin": torch.argmin}.items():
        names[f"row_{name}"] = lambda x, f=f: number(_rows(f, x, width))
    def rounded(x: Any, dtype: torch.dtype) -> Any:  # which passes gradients on
        x = number(x)
        return x + (x.to(dtype).double() - x).detach()

    names |= {"round_to": rounded, "f16": torch.float16,
              "row_cumsum": lambda x: _along(number(x), width).cumsum(-1),
              "row_cumsum_reversed": lambda x: _along(
                  number(x), width).flip(-1).cumsum(-1).flip(-1)}
    tree = _Numbers().visit(ast.parse(row.replace("; ", "\n")))
    exec(compile(ast.fix_missing_locations(tree), row, "exec"), names)
    return names


# --- Many formulas ----------------------------------------------------------------

# Operator, its shape (or None), its row, and how large its tensors are.
FORMULAS: list[tuple[str, str | None, str, list[tuple[int, ...]]]] = [
    ("cap(Tensor x, float cap=2.0) -> Tensor", None,
     "y = cap * tanh(x / cap)", [(3, 5)]),
    ("norm(Tensor x, Tensor weight, float eps=1e-6) -> Tensor",
     "x[*N, D], weight[D] -> [*N, D]",
     "s = row_sum(x * x); y = x / sqrt(s / width + eps) * weight",
     [(2, 3, 5), (5,)]),
    ("softmax(Tensor x) -> Tensor", "x[*N, D] -> [*N, D]",
     "e = exp(x - row_max(x)); y = e / row_sum(e)", [(3, 5)]),
    ("log_softmax(Tensor x) -> Tensor", "x[*N, D] -> [*N, D]",
     "t = x - row_max(x); y = t - log(row_sum(exp(t)))", [(3, 5)]),
    ("layer_norm(Tensor x, Tensor weight, Tensor bias) -> Tensor",
     "x[*N, D], weight[D], bias[D] -> [*N, D]",
     "t = x - row_mean(x); v = row_mean(t * t); "
     "y = t * rsqrt(v + 1) * weight + bias", [(2, 4, 5), (5,), (5,)]),
    ("gelu(Tensor x) -> Tensor", None,
     "y = x * 0.5 * (1 + erf(x * 0.70710678118654752))", [(7,)]),
    ("swiglu(Tensor a, Tensor b) -> Tensor", None, "y = a * sigmoid(a) * b",
     [(3, 5), (3, 5)]),
    ("scaled(Tensor x, Tensor scale, Tensor cos) -> Tensor",
     "x[B, T, D], scale[B], cos[T, D] -> [B, T, D]",
     "y = x * scale * cos + scale", [(2, 3, 4), (2,), (3, 4)]),
    ("one(Tensor x, Tensor t) -> Tensor", "x[*N], t[] -> [*N]",
     "y = exp(x * t) + t", [(3, 4), ()]),
    ("wide(Tensor x, Tensor y) -> Tensor", None, "out = x * y + sin(y)",
     [(3, 1, 5), (4, 1)]),
    ("top(Tensor x) -> (Tensor, Tensor)", "x[*N, D] -> [*N, D], [*N]",
     "y1 = row_max(x); y0 = x * y1", [(3, 5)]),
    ("length(Tensor x) -> Tensor", "x[*N, D] -> [*N]",
     "y = sqrt(row_sum(x * x) + 1)", [(3, 5)]),
    ("again(Tensor x, Tensor w) -> Tensor", "x[*N, D], w[*N, 1] -> [*N, D]",
     "s = x * w; s = exp(s) + s; s = s * s; y = s + row_mean(s)",
     [(3, 5), (3, 1)]),
]


def _tensors(sizes: list[tuple[int, ...]], seed: int = 0) -> list[torch.Tensor]:
    made = torch.Generator().manual_seed(seed)
    return [torch.randn(size, generator=made, dtype=torch.float64)
            .requires_grad_() for size in sizes]


def _defined(formula: tuple[str, str | None, str, Any], space: str = "grads"
             ) -> Callable[..., Any]:
    schema, shape, row, _ = formula
    name = schema.partition("(")[0]
    return opgraft.define(schema, row=row, shape=shape, name=f"{space}::{name}")


@pytest.mark.parametrize("formula", FORMULAS, ids=lambda f: f[0].split("(")[0])
def test_derivatives_by_differences(formula: Any) -> None:
    f, tensors = _defined(formula), _tensors(formula[3])
    assert gradcheck(f, tensors, check_forward_ad=True, fast_mode=True)
    assert gradgradcheck(f, tensors, check_fwd_over_rev=True, fast_mode=True)


def test_a_third_derivative() -> None:
    f = opgraft.define("cube(Tensor x) -> Tensor", row="x * x * x",
                       name="grads::cube")
    x = torch.tensor([2.0, -1.0], requires_grad=True)
    y = f(x)
    for factor in (3 * x * x, 6 * x, torch.full_like(x, 6.0)):
        y, = torch.autograd.grad(y.sum(), x, create_graph=True)
        assert torch.equal(y, factor)


def test_transforms_of_functions() -> None:
    f, tensors = _defined(FORMULAS[1]), _tensors(FORMULAS[1][3])
    x, w = (t.detach() for t in tensors)

    def plain(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return x / ((x * x).mean(-1, keepdim=True) + 1e-6).sqrt() * w

    def twice(g: Any) -> Any:
        return lambda x, w: g(x, w).pow(3).sum()

    for transform in (torch.func.jacfwd, torch.func.jacrev):
        torch.testing.assert_close(transform(f, (0, 1))(x, w),
                                   transform(plain, (0, 1))(x, w))
    torch.testing.assert_close(torch.func.hessian(twice(f), (0, 1))(x, w),
                               torch.func.hessian(twice(plain), (0, 1))(x, w))
    by_row = torch.func.vmap(torch.func.grad(twice(f), (0, 1)), (0, None))
    torch.testing.assert_close(
        by_row(x, w), torch.func.vmap(
            torch.func.grad(twice(plain), (0, 1)), (0, None))(x, w))


def _gradients(y: Any, inputs: list[torch.Tensor], graph: bool = False
               ) -> list[torch.Tensor]:
    found = torch.autograd.grad(y, inputs, create_graph=graph,
                                allow_unused=True)
    return [torch.zeros_like(x) if g is None else g
            for x, g in zip(inputs, found, strict=True)]


SEEDS = 40


def test_random_formulas() -> None:
    """First and second derivatives, beside PyTorch's of the same text."""
    compared = 0
    for seed in range(SEEDS):
        formula = formula_grow.grow(seed, more=False)
        f = opgraft.define(formula.schema, row=formula.row,
                           shape=formula.shape, name=f"grads::f{seed}")
        inputs = [torch.from_numpy(t).double().requires_grad_()
                  for t in formula.tensors]
        values = dict(zip("xwc", inputs, strict=True), k=formula.number)
        results = [f(*inputs, formula.number),
                   by_torch(formula.row, values, inputs[0].shape[-1])["y"]]
        firsts = []
        for y in results:
            firsts.append(_gradients(y.sin().sum(), inputs, graph=True))
        seconds = [_gradients(sum(g.sin().sum() for g in first), inputs)
                   if any(g.requires_grad for g in first) else []
                   for first in firsts]
        for ours, other in zip(firsts[0] + seconds[0], firsts[1] + seconds[1],
                               strict=True):
            is_known = other.isfinite() & (other.abs() < 1e12)
            size = float(other[is_known].detach().abs().max()
                         if is_known.any() else 1)
            torch.testing.assert_close(
                ours[is_known], other[is_known], rtol=1e-7,
                atol=1e-9 * size + 1e-12, msg=functools.partial(
                    "{}: {}".format, formula.row))
            compared += int(is_known.sum())
    print(f"{compared} elements of derivatives of {SEEDS} formulas compared")
    assert compared > 100 * SEEDS


@pytest.mark.parametrize("row, other", [
    ("abs(x)", torch.abs),
    # As clamp in torch 2.14 and newer.
    ("max(x, 0)", lambda x: torch.where(x > 0, x, 0.0)),
    ("min(1, max(x, -1))", lambda x: torch.where((x > -1) & (x < 1), x, 0.0)),
    ("select(x > 0, sqrt(x), 0)", None),
    ("copysign(x, -1)", lambda x: torch.copysign(x, torch.tensor(-1.0))),
    ("pow(x, 2)", lambda x: x.pow(2)),
    ("row_max(x)", lambda x: x.amax(-1, keepdim=True).expand(x.shape)),
    ("row_min(x)", lambda x: x.amin(-1, keepdim=True).expand(x.shape)),
])
def test_borders_are_pytorch(row: str, other: Any) -> None:
    name = "".join(c for c in row if c.isalnum())
    f = opgraft.define(f"border_{name}(Tensor x) -> Tensor", row=row)
    x = torch.tensor([[-1.0, 0.0, 1.0, 1.0, -1.0], [0.0, -0.0, 0.0, 2.0, 2.0],
                      [float("nan"), 1.0, 0.0, 3.0, -2.0]], requires_grad=True)
    f(x).sum().backward()
    ours, x.grad = x.grad, None
    if other is None:  # where() of PyTorch gives NaN at 0
        assert ours is not None
        assert ours[0].tolist() == [0.0, 0.0, 0.5, 0.5, 0.0]
        return
    other(x).sum().backward()
    torch.testing.assert_close(ours, x.grad, rtol=0, atol=0, equal_nan=True)


def test_two_that_are_equal_share() -> None:
    f = opgraft.define("larger(Tensor a, Tensor b) -> Tensor", row="max(a, b)")
    a, b = (torch.tensor([1.0, 2.0, float("nan")], requires_grad=True)
            for _ in range(2))
    f(a, b).sum().backward()
    ours = a.grad, b.grad
    a.grad = b.grad = None
    torch.maximum(a, b).sum().backward()
    assert torch.equal(ours[0], a.grad) and torch.equal(ours[1], b.grad)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_gradient_is_rounded_once(dtype: torch.dtype) -> None:
    """What bf16 gives is float64's, rounded, but for the last places."""
    f = _defined(FORMULAS[1])
    made = torch.Generator().manual_seed(1)
    x = torch.randn(257, 100, generator=made).to(dtype).requires_grad_()
    w = torch.randn(100, generator=made).to(dtype).requires_grad_()
    g = torch.randn(257, 100, generator=made).to(dtype)
    wide = [t.detach().double().requires_grad_() for t in (x, w)]
    ours = torch.autograd.grad(f(x, w), (x, w), g)
    exact = torch.autograd.grad(f(*wide), wide, g.double())
    unit = torch.finfo(dtype).eps
    for found, expected in zip(ours, exact, strict=True):
        assert found.dtype == dtype
        error = (found.double() - expected).abs().max() / expected.abs().max()
        assert error < unit * (1 if dtype == torch.bfloat16 else 8)


@pytest.mark.parametrize("size", [(0, 4), (3, 0), (1, 4), (64, 4), (65, 4),
                                  (2, 200, 3), (5, 1031)])
def test_sums_over_rows(size: tuple[int, ...]) -> None:
    """The language's own, of any number of rows; the same bits on any number of
    threads and in any layout."""
    f = opgraft.define("columns(Tensor x, Tensor k) -> (Tensor, Tensor)",
                       shape="x[*N, D], k[D] -> [D], []",
                       row="y0 = sum_rows(x * k); y1 = sum_rows(row_sum(x))")
    x = torch.randn(size)
    k = torch.randn(size[-1])
    wide = x.double()
    columns, total = f(x, k)
    exact = (wide * k).flatten(0, -2).sum(0)
    torch.testing.assert_close(columns.double(), exact, atol=1e-4, rtol=1e-5)
    torch.testing.assert_close(total.double(), wide.sum(), atol=1e-3, rtol=1e-4)
    turned = x.transpose(0, -1).contiguous().transpose(0, -1)
    threads = torch.get_num_threads()
    try:
        for n in (1, 4):
            torch.set_num_threads(n)
            for same in (x, turned):
                again = f(same, k)
                assert torch.equal(again[0], columns)
                assert torch.equal(again[1], total)
    finally:
        torch.set_num_threads(threads)


def test_a_condition_is_of_given_arguments() -> None:
    with pytest.raises(RuntimeError, match=r"expected given\(an optional"):
        opgraft.define("wrong(Tensor x) -> Tensor", row="y = x if x")


def test_an_optional_argument() -> None:
    f = opgraft.define(
        "maybe(Tensor x, Tensor? bias=None, Tensor? scale=None) -> Tensor",
        shape="x[*N, D], bias?[D], scale?[*N, D] -> [*N, D]",
        row="y = x * x; y = y + exp(bias); y = y * scale; y = y * y")
    made = _tensors([(3, 4), (4,), (3, 4)])
    for has_bias in (False, True):
        for has_scale in (False, True):
            x, b, s = made
            given = [x, b if has_bias else None, s if has_scale else None]
            inputs = [t for t in given if t is not None]
            y = x * x
            y = y + b.exp() if has_bias else y
            y = y * s if has_scale else y
            expected = torch.autograd.grad((y * y).sum(), inputs)
            found = torch.autograd.grad(f(*given).sum(), inputs)
            torch.testing.assert_close(found, expected)


def test_a_gradient_by_hand_wins(write_module: Any) -> None:
    m = opgraft.load(write_module("""
#include <opgraft/op.h>
static const og_op ops[] = {
    {.schema = "f(Tensor x) -> Tensor", .row = "x * x",
     .backward = "f_backward(grad) -> x"},
    {.schema = "f_backward(Tensor grad) -> Tensor", .row = "grad * 7",
     .backward = "none"},
    {.schema = "g(Tensor x) -> Tensor", .row = "x * x"},
    {.schema = "h(Tensor x) -> Tensor", .row = "x * x", .backward = "none"},
};
OG_MODULE(by_hand, ops)
"""))
    x = torch.ones(2, requires_grad=True)
    assert torch.autograd.grad(m.f(x).sum(), x)[0].tolist() == [7.0, 7.0]
    assert torch.autograd.grad(m.g(x).sum(), x)[0].tolist() == [2.0, 2.0]
    assert torch.autograd.grad(m.h(x).sum(), x, allow_unused=True)[0] is None
    assert torch.equal(m.g_gradient(x.detach(), x.detach()),
                       torch.full((2,), 2.0))


@pytest.mark.parametrize("backend, mode", [
    ("opgraft", "default"), ("opgraft", "reduce-overhead"),
    ("opgraft", "max-autotune"),
    ("inductor", "default"), ("aot_eager", "default")])
def test_compiled_gradients(backend: str, mode: str) -> None:
    f, softcap = _defined(FORMULAS[1]), _defined(FORMULAS[0])

    def model(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return softcap(f(x, w), 2.0)

    torch._dynamo.reset()
    options = {"options": {"mode": mode}} if backend == "opgraft" else {}
    compiled = torch.compile(model, backend=backend, fullgraph=True, **options)
    x = torch.randn(6, 96, requires_grad=True)
    w = torch.randn(96, requires_grad=True)
    for _ in range(2):
        expected = torch.autograd.grad(model(x, w).sum(), (x, w))
        found = torch.autograd.grad(compiled(x, w).sum(), (x, w))
        torch.testing.assert_close(found, expected)


def test_a_derived_operator_pickles() -> None:
    import pickle

    opgraft.define("again_and(Tensor x) -> Tensor", row="x * x",
                   name="grads::again_and")
    name = torch.ops.grads.again_and_gradient
    x = torch.ones(2)
    assert name(x, x).tolist() == [2.0, 2.0]
    from opgraft._load.define import _defined as defined

    m = defined["grads", "again_and"]
    f = m.again_and_gradient
    assert pickle.loads(pickle.dumps(f)) is f
