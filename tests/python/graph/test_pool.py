# SPDX-License-Identifier: Apache-2.0
"""Max pooling by the engine's fast kernel, bit for bit what eager gives."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from torch.nn import functional as F

import opgraft

T = torch.Tensor


def who(f: Any) -> str:
    line = next(line for line in str(opgraft.stats(f).rules()).splitlines()
                if line.startswith("max_pool2d"))
    return line.split(": ")[1].split()[0]


def equal(a: T, b: T) -> bool:
    """NaN is where NaN is; zeros have their signs."""
    return a.shape == b.shape and bool(
        ((a == b) & (torch.signbit(a) == torch.signbit(b))
         | a.isnan() & b.isnan()).all())


def drawn(seed: int) -> tuple[T, dict[str, Any]]:
    r = random.Random(seed)
    torch.manual_seed(seed)
    kernel = (r.randint(1, 5), r.randint(1, 5))
    given = {"kernel_size": kernel,
             "stride": (r.randint(1, 3), r.randint(1, 3)),
             "padding": (r.randint(0, kernel[0] // 2),
                         r.randint(0, kernel[1] // 2)),
             "dilation": (r.choice([1, 1, 2]), r.choice([1, 1, 2])),
             "ceil_mode": r.random() < 0.5}
    sides = [(kernel[d] - 1) * given["dilation"][d] + r.randint(1, 40)
             for d in range(2)]
    x = torch.randint(-3, 4, (r.choice([1, 2]), r.choice([1, 3, 17]), *sides))
    x = x.float()
    for special in (float("nan"), float("inf"), float("-inf"), -0.0):
        x[torch.rand(x.shape) < r.choice([0, 0.05])] = special
    return x, given


@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
@pytest.mark.parametrize("seed", range(10))
def test_drawn(seed: int, mode: str) -> None:
    x, given = drawn(seed)

    def values(x: T) -> T:
        return F.max_pool2d(x, **given)

    def both(x: T) -> tuple[T, T]:
        return F.max_pool2d(x, return_indices=True, **given)

    for f in (values, both):
        made = torch.compile(f, backend="opgraft", dynamic=False,
                             options={"mode": mode, "tune_s": 0})
        found, expected = made(x), f(x)
        assert who(made) == "fast"
        if f is values:
            assert equal(found, expected)
        else:
            assert equal(found[0], expected[0])
            assert torch.equal(found[1], expected[1])


@pytest.mark.parametrize(("make", "by"), [
    (lambda: torch.randn(2, 3, 9, 11).double(), "host"),
    (lambda: torch.randn(2, 3, 9, 11).to(
        memory_format=torch.channels_last), "host"),
    (lambda: torch.randn(3, 9, 11), "fast"),
    (lambda: torch.full((1, 2, 9, 11), float("-inf")), "fast"),
])
def test_types_and_layouts(make: Any, by: str) -> None:
    x = make()

    def pool(x: T) -> tuple[T, T]:
        return F.max_pool2d(x, 3, 2, 1, return_indices=True)

    f = torch.compile(pool, backend="opgraft")
    found, expected = f(x), pool(x)
    assert who(f) == by
    assert equal(found[0], expected[0]) and torch.equal(found[1], expected[1])


def test_gradient() -> None:
    x = torch.randn(2, 3, 20, 21, requires_grad=True)

    def pool(x: T) -> T:
        return F.max_pool2d(x.sin(), 3, 2, 1)

    found = torch.autograd.grad(
        torch.compile(pool, backend="opgraft")(x).square().sum(), x)
    expected = torch.autograd.grad(pool(x).square().sum(), x)
    assert torch.allclose(found[0], expected[0])
