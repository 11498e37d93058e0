# SPDX-License-Identifier: Apache-2.0
"""What compiling and a first call leave behind goes back to the system, once."""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

import pytest
import torch

LIBC = ctypes.CDLL(None)
BLOCK_BYTES = 1 << 16
BLOCKS = 1024


class Holes:
    """Free memory between blocks that are in use, so that it stays resident."""

    def __init__(self) -> None:
        LIBC.malloc.restype = ctypes.c_void_p
        blocks = [LIBC.malloc(ctypes.c_size_t(BLOCK_BYTES))
                  for _ in range(BLOCKS)]
        for block in blocks:
            ctypes.memset(block, 1, BLOCK_BYTES)
        self.kept, self.freed = blocks[::2], blocks[1::2]
        for block in self.freed:
            LIBC.free(ctypes.c_void_p(block))

    def resident(self) -> float:
        """The share of the free pages."""
        found = total = 0
        for block in self.freed:
            begin = -(-(block + 64) // mmap.PAGESIZE) * mmap.PAGESIZE
            count = (block + BLOCK_BYTES - 64 - begin) // mmap.PAGESIZE
            pages = (ctypes.c_ubyte * count)()
            # It fails where the end of the heap is gone.
            if LIBC.mincore(ctypes.c_void_p(begin), ctypes.c_size_t(
                    count * mmap.PAGESIZE), pages) == 0:
                found += sum(p & 1 for p in pages)
            total += count
        return found / total

    def close(self) -> None:
        for block in self.kept:
            LIBC.free(ctypes.c_void_p(block))


LIBRARY = torch.library.Library("test_memory", "FRAGMENT")
MADE: list[Holes] = []
FOUND: list[float] = []


def _riddle(x: torch.Tensor) -> torch.Tensor:
    """New holes take the place of the last ones."""
    FOUND.append(MADE[-1].resident())
    MADE.append(Holes())
    return x.clone()


LIBRARY.define("riddle(Tensor x) -> Tensor")
LIBRARY.impl("riddle", _riddle, "CPU")
torch.library.register_fake("test_memory::riddle", torch.empty_like,
                            lib=LIBRARY)


@pytest.mark.skipif(not hasattr(LIBC, "malloc_trim"),
                    reason="not glibc: its allocator keeps what it keeps")
def test_once_after_compiling_and_after_a_first_call() -> None:
    def f(x: torch.Tensor) -> Any:
        return torch.ops.test_memory.riddle(x) + 1

    MADE.append(Holes())
    assert MADE[0].resident() > 0.9
    g = torch.compile(f, backend="opgraft", fullgraph=True)
    x = torch.ones(1 << 18)
    try:
        for _ in range(3):
            assert torch.equal(g(x), x + 1)
        compiling, first, second = FOUND
        assert compiling < 0.5
        assert first < 0.5
        assert second > 0.9
    finally:
        for holes in MADE:
            holes.close()
        MADE.clear()
        FOUND.clear()
