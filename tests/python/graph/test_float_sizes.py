# SPDX-License-Identifier: Apache-2.0
"""Floats computed from sizes: in the engine as in Python, and not a
reason to leave it."""

from __future__ import annotations

import math
import random
from typing import Any, Callable

import pytest
import torch
import torch.nn.functional as F
from compare import compiled, same
from torch.export import Dim

import opgraft

T = torch.Tensor
SIZES = (6, 7, 9, 12, 13)

Function = Callable[[T], T]


def padded(x: T) -> T:
    n = x.shape[0]
    return F.pad(x, (0, 0, 0, 2 ** math.ceil(math.log2(n)) - n))


# By name: function of x[n, n + 1], or of x[1, 1, n, n + 1].
FUNCTIONS: dict[str, tuple[Function, bool]] = {
    "interpolate": (lambda x: F.interpolate(x, scale_factor=1.5), True),
    "bilinear": (lambda x: F.interpolate(
        x, scale_factor=0.7, mode="bilinear"), True),
    "pool": (lambda x: F.adaptive_avg_pool2d(
        x, (int(x.shape[2] / 2), x.shape[3] // 2)), True),
    "ratio": (lambda x: x * (x.shape[0] / x.shape[1]), False),
    "half": (lambda x: x[:int(x.shape[0] * 0.5)] * 2, False),
    "scaled": (lambda x: (x @ x.t() / math.sqrt(x.shape[1])).softmax(-1),
               False),
    "rounded": (lambda x: x + round(x.shape[0] ** 0.5) + min(
        x.shape[0] / 2, 3.5), False),
    "power of two": (padded, False),
}


def sample(name: str, n: int) -> T:
    shape = (1, 1, n, n + 1) if FUNCTIONS[name][1] else (n, n + 1)
    return torch.randn(shape)


@pytest.mark.parametrize("trains", [False, True])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_float_sizes_stay_in_the_graph(name: str, trains: bool) -> None:
    f = FUNCTIONS[name][0]
    c = compiled(f, dynamic=True, fullgraph=True)
    for n in SIZES:
        x = sample(name, n).requires_grad_(trains)
        y = x.detach().clone().requires_grad_(trains)
        wanted, found = f(x), c(y)
        same(found, wanted)
        if trains:
            wanted.sin().sum().backward()
            found.sin().sum().backward()
            assert x.grad is not None and y.grad is not None
            torch.testing.assert_close(y.grad, x.grad)
    found = opgraft.stats(c)
    assert all(g["name"].count("_") == 2 for g in found.graphs)  # no segments
    assert found.native >= 1 or name == "power of two"
    assert not any("whole graph" in g["operator"] for g in found.fallbacks)


@pytest.mark.parametrize("name", ["interpolate", "bilinear", "ratio"])
def test_float_sizes_frozen(name: str) -> None:
    f = FUNCTIONS[name][0]
    x = sample(name, 6)
    dims = {x.ndim - 2: Dim("a", min=4), x.ndim - 1: Dim("b", min=4)}
    c = opgraft.freeze(lambda x: f(x), (x,), dynamic_shapes=(dims,))
    for n in SIZES:
        x = sample(name, n)
        same(c(x), f(x))


def test_what_has_no_form_cuts_a_segment() -> None:
    """A truth value of sizes, as an argument."""
    def f(x: T) -> T:
        y = (x.exp() * 2).cumsum(0)
        mask = torch.full((1,), x.shape[0] > x.shape[1])
        return torch.where(mask, y, -y).tanh() * 3

    c = compiled(f, dynamic=True, fullgraph=True)
    for shape in ((6, 7), (9, 8), (3, 5), (8, 4)):
        x = torch.randn(shape)
        same(c(x), f(x))
    found = opgraft.stats(c)
    assert [g["operator"] for g in found.fallbacks] == ["aten.full.default"]
    assert "sizes" in found.fallbacks[0]["reason"]
    assert found.native >= 5


# --- Random expressions against Python ----------------------------------------


class Expression:
    """Of two sizes: an integer or a float, as Python computes it."""

    def __init__(self, source: random.Random) -> None:
        self.random = source

    def integer(self, depth: int) -> str:
        if depth == 0:
            return self.random.choice(("n", "m", "n", "m", "2", "3"))
        a = self.real(depth - 1)
        i, j = self.integer(depth - 1), self.integer(depth - 1)
        return self.random.choice((
            f"int({a})", f"math.floor({a})", f"math.ceil({a})", f"round({a})",
            f"({i} + {j})", f"({i} - {j})", f"({i} * {j})", f"({i} // 3)",
            f"min({i}, {j})", f"max({i}, {j})", f"({i} % 5)", f"({i} ** 2)",
        ))

    def real(self, depth: int) -> str:
        if depth == 0:
            return self.random.choice(
                ("n / m", "float(n)", "n * 0.1", "m / 3", "n * 1.7", "m ** 0.5"))
        a, b = self.real(depth - 1), self.real(depth - 1)
        i = self.integer(depth - 1)
        return self.random.choice((
            f"({a} + {b})", f"({a} - {b})", f"({a} * {b})", f"({a} / {b})",
            f"({i} / 7)", f"({a} * 1.3)", f"(0.3 - {a})", f"({i} * 0.1)",
            f"min({a}, {b})", f"max({a}, 2.5)", f"({a} + {i})",
            f"math.sqrt(n + {i} ** 2)",
            "math.log2(n + 1)", "math.log(m + 2)", "math.exp(n / 9)",
            f"math.sin({a})", f"math.cos({a})", f"math.tanh({a})",
            f"math.atan({a})",
        ))


def check(seed: int) -> bool:
    """False where Python, torch or the numbers refuse the expression."""
    source = random.Random(seed)
    is_float = source.random() < 0.6
    make = Expression(source)
    text = make.real(3) if is_float else make.integer(3)
    evaluated = eval(f"lambda n, m: {text}", {"math": math})

    def f(x: T) -> T:
        # In float64, so that a size's last bit shows.
        return torch.zeros(3, dtype=torch.float64) + evaluated(
            x.shape[0], x.shape[1])

    shapes = [(5, 8), (7, 4), (11, 13), (9, 9)]
    try:
        wanted = [evaluated(n, m) for n, m in shapes]
    except (ZeroDivisionError, OverflowError, ValueError):
        return False
    if any(abs(w) > 1e12 for w in wanted):
        return False
    torch._dynamo.reset()
    c = compiled(f, dynamic=True, fullgraph=True)
    try:
        c(torch.zeros(6, 10))
    except torch._dynamo.exc.Unsupported:
        return False
    for (n, m), value in zip(shapes, wanted, strict=True):
        found = c(torch.zeros(n, m))
        # sympy may add and multiply floats in another order.
        limit = 0 if isinstance(value, int) else 4e-15 * max(1, abs(value))
        assert abs(found[0].item() - value) <= limit, (seed, text, n, m)
    assert not any("whole graph" in g["operator"]
                   for g in opgraft.stats(c).fallbacks), (seed, text)
    return True


@pytest.mark.full
def test_random_expressions_of_sizes() -> None:
    tried = sum(check(seed) for seed in range(24))
    assert tried >= 12


@pytest.mark.full
def test_many(rounds: Any) -> None:
    rounds(check, 1000)
