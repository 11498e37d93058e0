# SPDX-License-Identifier: Apache-2.0
"""Products whose rows share the first-level cache's sets, which are copied
first: the same bits as of rows that do not, in batches and on any threads."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from test_tall import engine

import opgraft

# Batches, rows, columns, steps: rows a multiple of 4096 bytes apart, and ends
# of tiles, panels and tasks.
SIZES = [(1, 32, 256, 1024), (1, 77, 300, 2048), (3, 45, 256, 1024),
         (1, 33, 257, 3072)]


def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.relu(a @ b)


@pytest.mark.parametrize("batches, rows, columns, steps", SIZES)
def test_bits(batches: int, rows: int, columns: int, steps: int,
              tmp_path: Path) -> None:
    a = torch.randn(batches, rows, steps).squeeze(0)
    b = torch.randn(batches, steps, columns).squeeze(0)
    apart = torch.zeros(*a.shape[:-1], steps + 16)[..., :steps].copy_(a)
    threads, found = torch.get_num_threads(), []
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            for x in (a, apart):
                g = engine(product, tmp_path)
                found.append(g(x, b))
                assert ": fast" in opgraft.stats(g).rules()
    finally:
        torch.set_num_threads(threads)
    torch.testing.assert_close(found[0], product(a.double(), b.double())
                               .float(), rtol=1e-4, atol=1e-3)
    assert all(torch.equal(found[0], f) for f in found)
