# SPDX-License-Identifier: Apache-2.0
"""Sums and means over all dims but the last run by the engine."""

from __future__ import annotations

from typing import Any, Callable

import pytest
import torch

import opgraft

SHAPES = [(64, 1024), (2, 600), (7, 257), (3, 16, 300), (1, 2048), (129, 5)]
INFINITE = float("inf")


def engine(f: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    torch._dynamo.reset()
    return torch.compile(f, backend="opgraft", fullgraph=True, dynamic=False,
                         options={"mode": "max-autotune", "tune_s": 0,
                                  })


def summed(x: torch.Tensor) -> torch.Tensor:
    return x.sum(tuple(range(x.ndim - 1)))


def averaged(x: torch.Tensor) -> torch.Tensor:
    return x.mean(tuple(range(x.ndim - 1)), keepdim=True)


def kernels(f: Callable[..., Any]) -> set[str]:
    lines = opgraft.stats(f).rules().splitlines()
    return {line.split(":")[1].split()[0] for line in lines
            if line.startswith(("sum", "mean"))}


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16,
                                   torch.float16])
@pytest.mark.parametrize("f", [summed, averaged])
def test_against_double(f: Any, dtype: torch.dtype, shape: tuple[int, ...]
                        ) -> None:
    x = (torch.randn(shape) * 3 + 1).to(dtype)
    found = f(x.double())
    g = engine(f)
    y = g(x)
    assert y.dtype == dtype and torch.equal(y, found.to(dtype))
    assert kernels(g) == {"fast"}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_what_is_not_finite(dtype: torch.dtype) -> None:
    x = torch.ones(9, 300, dtype=dtype)
    x[2, 5], x[3, 6], x[8, 7] = INFINITE, -INFINITE, float("nan")
    x[1, 8], x[2, 8] = INFINITE, -INFINITE
    torch.testing.assert_close(engine(summed)(x), summed(x), equal_nan=True)


def test_rows_that_are_apart() -> None:
    x = torch.randn(33, 700)[::2, 3:640]
    g = engine(summed)
    torch.testing.assert_close(g(x), summed(x))
    assert kernels(g) == {"fast"}


@pytest.mark.parametrize("make", [
    lambda: torch.randn(700, 33).t(),
    lambda: torch.randn(4, 9, 300).transpose(0, 1)[:, :3],
    lambda: torch.randn(40, 1024, dtype=torch.float64),
    lambda: torch.ones(40, 1024, dtype=torch.int32)])
def test_what_others_run(make: Callable[[], torch.Tensor]) -> None:
    x = make()
    g = engine(summed)
    torch.testing.assert_close(g(x), summed(x))
    assert "fast" not in kernels(g)


@pytest.mark.parametrize("rows", [5, 64])
def test_bits_by_threads(rows: int) -> None:
    x = torch.randn(rows, 3000)
    threads, found = torch.get_num_threads(), []
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            found.append(engine(summed)(x))
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(found[0], found[1]) and torch.equal(found[0], found[2])


def test_gradient_of_a_bias() -> None:
    model = torch.nn.Linear(64, 1024)
    x, w = torch.randn(64, 64), torch.randn(64, 1024)
    g = engine(model)
    (g(x) * w).sum().backward()
    assert model.bias.grad is not None
    assert torch.equal(model.bias.grad, w.double().sum(0).float())
    assert kernels(g) == {"fast"}
