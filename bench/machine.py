# SPDX-License-Identifier: Apache-2.0
"""The machine's own limits, measured: a column of every kernel table."""

from __future__ import annotations

import functools
import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable

import harness
import torch

import call
import opgraft

SOURCE = call.PEERS / "machine.c"


DOTS = ("avx512_bf16", "amx_bf16")  # sets that multiply bf16


def _flags() -> set[str]:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("flags"):
            return set(line.split())
    return set()


def instruction_set() -> str:
    """What the operator library uses here."""
    flags = _flags()
    names = ["scalar"]
    if {"avx2", "fma"} <= flags:
        names.append("avx2")
    if {"avx512f", "avx512bw", "avx512dq", "avx512vl"} <= flags:
        names.append("avx512")
        if {"avx512_bf16", "avx512_vbmi"} <= flags:
            names.append("avx512_bf16")
        if {"avx512_bf16", "avx512_vbmi", "amx_tile", "amx_bf16"} <= flags:
            names.append("amx_bf16")
    asked = os.environ.get("OPGRAFT_ISA", names[-1])
    return asked if asked in names else names[-1]


@dataclass
class Limit:
    """Work that some unit of the machine is busy with, and no more: timed in
    turns with what it bounds."""

    call: Callable[[], Any]
    work: float  # FLOPs or bytes of one call

    def run(self, count: int) -> None:
        for _ in range(count):
            self.call()


@functools.cache
def _module() -> Any:
    path = Path(tempfile.mkdtemp()) / "machine.so"
    call.compile_c(SOURCE, path)
    return opgraft.load(path)


class Machine:
    """Limits of the threads that PyTorch has when they are measured."""

    def __init__(self) -> None:
        self.isa = instruction_set()

    def _limit(
        self, what: str, data: torch.Tensor, rounds: int = 0
    ) -> Limit:
        work = _module().work
        return Limit(lambda: work(data, what, rounds),
                     int(work(data, what, rounds)))

    def arithmetic(
        self, dtype: torch.dtype, seconds: float = 0.01
    ) -> dict[str, Limit]:
        """FMA of the set in use, and bf16 dots where the type has them. The
        speed of a core changes from one moment to the next, so a limit should
        take about as long as what it bounds: `seconds`."""
        names = ["fma_avx2" if self.isa == "avx2" else "fma_avx512"]
        if dtype == torch.bfloat16 and self.isa in DOTS:
            names.append(f"dot_{self.isa}")
        return self._busy(names, seconds)

    def tile(self, dtype: torch.dtype, seconds: float = 0.01
             ) -> dict[str, Limit]:
        """The same with the loads that a tile of a matrix product has, from
        the first-level cache: a core's clock may be lower under both."""
        names = ["tile_avx2" if self.isa == "avx2" else "tile_avx512"]
        if dtype == torch.bfloat16 and self.isa in DOTS:
            names.append(f"tile_{self.isa}")
        return self._busy(names, seconds)

    def _busy(self, names: list[str], seconds: float) -> dict[str, Limit]:
        limits, rounds = {}, 100_000
        # Not read: a call on less is given one thread.
        data = torch.zeros(1 << 16, dtype=torch.uint8)
        for name in names:
            short = self._limit(name, data, rounds)
            each = min(_seconds(short.call) for _ in range(5)) / rounds
            limits[name] = self._limit(name, data, int(seconds / each) + 1)
        return limits

    def reading(self, data: torch.Tensor) -> dict[str, Limit]:
        """Reading a contiguous tensor once, in one stream a thread and in
        more: which of them is faster differs."""
        flat = data.view(-1).view(torch.uint8)
        return {name: self._limit(name, flat) for name in ("read_1", "read_8")}

    def flops(self, dtype: torch.dtype) -> float:
        """GFLOP/s of the faster arithmetic, the best of twenty calls each."""
        return _best(self.arithmetic(dtype))

    def bandwidth(self) -> float:
        """GB/s of reading memory that no cache holds."""
        return _best(self.reading(torch.ones(torch.get_num_threads() * (48 << 20))))


@functools.cache
def _streams() -> Any:
    path = Path(tempfile.mkdtemp()) / "streams.so"
    call.compile_c(call.PEERS / "streams.c", path)
    return opgraft.load(path).stream


def streams(read: int, written: int, size: int
            ) -> dict[str, Callable[[int], Any]]:
    """As many streams of `size` bytes, past the caches too: to be timed beside
    what they bound."""
    x = torch.ones(read * size // 4).view(torch.uint8).view(read, size)
    y = torch.ones(written * size // 4).view(torch.uint8).view(written, size)
    return {f"limit {kind}": harness.loop("f(x, y, k)", f=_streams(), x=x, y=y,
                                          k=k)
            for k, kind in enumerate(("stores", "direct stores"))
            if written or k == 0}


def _seconds(call: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def _best(limits: dict[str, Limit]) -> float:
    return max(limit.work / _seconds(limit.call) / 1e9
               for _ in range(20) for limit in limits.values())


def peak_mb(run: Callable[[], Any]) -> float | None:
    """Megabytes by which a call raises the process's peak; None if the
    kernel does not say."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
        before = _status("VmRSS")
        run()
        return max(0.0, (_status("VmHWM") - before) / 1024)
    except OSError:
        return None


def _status(key: str) -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key):
            return float(line.split()[1])
    raise OSError(key)
