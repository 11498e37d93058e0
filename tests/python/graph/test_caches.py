# SPDX-License-Identifier: Apache-2.0
"""A large tensor that is written in part: no copy of the whole, by whatever
operator; and the rows that models with dropout and experts need."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from compare import check, compiled, same

import opgraft

BYTES = 64 << 20
T = torch.Tensor


def resident_peak() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) << 10
    raise OSError("no VmHWM")


def by_index_put(cache: T, rows: T, at: T) -> T:
    cache.index_put_((at,), rows * 2)
    return cache[3] + 1


def by_index_copy(cache: T, rows: T, at: T) -> T:
    cache.index_copy_(0, at, rows * 2)
    return cache[3] + 1


def by_index_add(cache: T, rows: T, at: T) -> T:
    cache.index_add_(0, at, rows * 2)
    return cache[3] + 1


def by_scatter(cache: T, rows: T, at: T) -> T:
    cache.scatter_(0, at[:, None].expand_as(rows), rows * 2)
    return cache[3] + 1


def by_slice(cache: T, rows: T, at: T) -> T:
    cache[2:6] = rows * 2
    return cache[3] + 1


@pytest.mark.parametrize("f", [by_index_put, by_index_copy, by_index_add,
                               by_scatter, by_slice])
def test_written_without_a_copy(f: Any) -> None:
    rows, at = torch.randn(4, 1024), torch.tensor([2, 3, 4, 5])
    small = torch.randn(16, 1024)
    mine, theirs = small.clone(), small.clone()
    cache = torch.full((BYTES // 4096, 1024), 3.0)
    with torch.no_grad():
        c = compiled(f, dynamic=True)
        same(c(mine, rows, at), f(theirs, rows, at))
        same(mine, theirs)
        c(cache, rows, at)  # the largest that it ever needs
        Path("/proc/self/clear_refs").write_text("5")
        before = resident_peak()
        c(cache, rows, at)
        assert resident_peak() - before < BYTES // 4
    assert not opgraft.stats(c).clone_bytes
    assert not opgraft.stats(c).in_python


@pytest.mark.parametrize("size", [5, 3000])
@pytest.mark.parametrize("bounds", [(0, 8), (-1.5, 2)])
def test_histc(size: int, bounds: tuple[float, float]) -> None:
    least, most = bounds
    x = torch.randn(size) * 3
    x[:3] = torch.tensor([least, most, float("inf")])
    c = check(lambda x: torch.histc(x, 9, least, most), x)
    assert not opgraft.stats(c).in_python


def test_histc_of_all() -> None:
    """Bounds from the data: the host's."""
    check(lambda x: torch.histc(x, 5), torch.randn(40))


def test_dropout_is_native() -> None:
    x = torch.randn(30, 40, requires_grad=True)
    c = compiled(lambda x: F.dropout(x * 2, 0.4))
    results = []
    for f in (c, lambda x: F.dropout(x * 2, 0.4)):
        torch.manual_seed(5)
        y = f(x)
        (grad,) = torch.autograd.grad(y.sum(), x)
        results.append([y, grad, torch.rand(3)])
    same(results[0], results[1])
    assert not opgraft.stats(c).fallbacks
