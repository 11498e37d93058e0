# SPDX-License-Identifier: Apache-2.0
"""Tall results over a small operand, which is packed before the tasks: the
same bits as where each task packs its own columns, and on any threads."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable

import pytest
import torch

import opgraft

# Rows, columns and steps: of gradients of weights, ends of tiles and panels.
SIZES = [(1024, 1024, 64), (512, 1024, 33), (131, 100, 7), (128, 65, 64),
         (700, 500, 128), (2000, 66, 300)]


def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a.t() @ b


def raised(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.relu(a @ b + 1)


def engine(f: Callable[..., Any], folder: Path) -> Callable[..., Any]:
    rules = folder / "rules"
    rules.write_text("matmul: fast\naddmm: fast\n")
    torch._dynamo.reset()
    return torch.compile(f, backend="opgraft", fullgraph=True, dynamic=False,
                         options={"mode": "max-autotune", "tune_s": 0,
                                  "choose": str(rules)})


@pytest.mark.parametrize("rows, columns, steps", SIZES)
@pytest.mark.parametrize("f", [product, raised])
def test_numbers(f: Any, rows: int, columns: int, steps: int, tmp_path: Path
                 ) -> None:
    a = torch.randn((steps, rows) if f is product else (rows, steps))
    b = torch.randn(steps, columns)
    g = engine(f, tmp_path)
    torch.testing.assert_close(g(a, b), f(a.double(), b.double()).float(),
                               rtol=1e-4, atol=1e-4)
    assert ": fast" in opgraft.stats(g).rules()


@pytest.mark.parametrize("rows, columns, steps", SIZES)
def test_bits_by_threads_and_rows(rows: int, columns: int, steps: int,
                                  tmp_path: Path) -> None:
    a, b = torch.randn(steps, rows), torch.randn(steps, columns)
    threads, found = torch.get_num_threads(), []
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            found.append(engine(product, tmp_path)(a, b))
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(found[0], found[1]) and torch.equal(found[0], found[2])
    few = engine(product, tmp_path)(a[:, :100], b)
    assert torch.equal(few, found[0][:100])


def test_of_other_operands_each_call(tmp_path: Path) -> None:
    g = engine(product, tmp_path)
    for _ in range(3):
        a, b = torch.randn(64, 512), torch.randn(64, 256)
        torch.testing.assert_close(g(a, b), a.t() @ b, rtol=1e-4, atol=1e-4)
