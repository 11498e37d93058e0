# SPDX-License-Identifier: Apache-2.0
"""Mode max-autotune: a loss of log_softmax, computed of one number a row."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from compare import no_worse
from torch.nn import functional as F

import opgraft

T = torch.Tensor
OPTIONS = {"mode": "max-autotune"}


def tensors(rows: int = 37, classes: int = 101) -> tuple[T, T, T]:
    generator = torch.Generator().manual_seed(rows)
    return (torch.randn(rows, classes, generator=generator) * 5,
            torch.randint(0, classes, (rows,), generator=generator),
            torch.rand(classes, generator=generator) + 0.1)


def compiled(f: Any, **more: Any) -> Any:
    torch._dynamo.reset()
    return torch.compile(f, backend="opgraft", options=OPTIONS, **more)


def texts(c: Any) -> list[str]:
    return [p["text"] for g in opgraft.stats(c).graphs for p in g["programs"]]


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("has_weight", [False, True])
@pytest.mark.parametrize("ignored", [-100, 5])
def test_cross_entropy(reduction: str, has_weight: bool, ignored: int) -> None:
    x, target, weight = tensors()
    target[::4] = ignored

    def loss(x: T, target: T, weight: T) -> T:
        return F.cross_entropy(x, target, weight if has_weight else None,
                               ignore_index=ignored, reduction=reduction)

    c = compiled(loss)
    with torch.no_grad():
        found = c(x, target, weight)
        wanted = loss(x, target, weight)
        exact = loss(x.double(), target, weight.double())
    assert found.shape == wanted.shape and found.dtype == wanted.dtype
    no_worse(found, wanted, exact)
    assert any("row_max" in t and "row_sum" in t for t in texts(c)), texts(c)
    assert not any("log_softmax" in line for line in str(
        opgraft.stats(c)).splitlines())


def test_a_class_that_weighs_nothing_and_is_impossible() -> None:
    x, target, weight = tensors()
    x[0, target[0]], weight[target[0]] = float("-inf"), 0
    x[1, target[1]], target[1] = float("-inf"), -100
    with torch.no_grad():
        for reduction in ("none", "mean"):
            given = x, target, weight, None, -100, None, reduction
            found = compiled(F.nll_loss)(*given)
            torch.testing.assert_close(
                found, F.nll_loss(*given), equal_nan=True)


def test_all_rows_ignored_is_nan_and_no_rows_too() -> None:
    x, target, _ = tensors()
    c = compiled(F.cross_entropy)
    with torch.no_grad():
        assert c(x, torch.full_like(target, -100)).isnan()
        assert c(x[:0], target[:0]).isnan()


def test_infinite_and_missing_numbers() -> None:
    x, target, _ = tensors()
    x[0, :], x[1, 7], x[2, 7], x[3, target[3]] = float("-inf"), float(
        "inf"), float("nan"), float("-inf")

    def loss(x: T, target: T) -> T:
        return F.cross_entropy(x, target, reduction="none")

    with torch.no_grad():
        found, wanted = compiled(loss)(x, target), loss(x, target)
    torch.testing.assert_close(found, wanted, equal_nan=True)


def test_a_target_out_of_range_is_an_error() -> None:
    x, target, _ = tensors()
    target[3] = x.shape[1]
    with torch.no_grad(), pytest.raises(Exception, match="out of (range|bounds)"):
        compiled(F.cross_entropy)(x, target)


def test_sizes_that_vary_and_frozen() -> None:
    c = compiled(F.cross_entropy, dynamic=True)
    with torch.no_grad():
        for rows in (3, 8, 37):
            x, target, _ = tensors(rows)
            exact = F.cross_entropy(x.double(), target)
            no_worse(c(x, target), F.cross_entropy(x, target), exact)
    frozen = opgraft.freeze(F.cross_entropy, (x, target), options=OPTIONS)
    no_worse(frozen(x, target), F.cross_entropy(x, target), exact)


def test_a_probability_that_is_read_stays() -> None:
    """log_softmax is a result too, and in training its gradient needs it."""
    x, target, _ = tensors()

    def both(x: T, target: T) -> tuple[T, T]:
        y = F.log_softmax(x, -1)
        return F.nll_loss(y, target), y

    with torch.no_grad():
        found, wanted = compiled(both)(x, target), both(x, target)
        exact = both(x.double(), target)
    no_worse(found, wanted, exact)
    mine, theirs = (x.clone().requires_grad_() for _ in range(2))
    compiled(F.cross_entropy)(mine, target).backward()
    F.cross_entropy(theirs, target).backward()
    torch.testing.assert_close(mine.grad, theirs.grad)
