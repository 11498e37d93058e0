# SPDX-License-Identifier: Apache-2.0
"""The machine's own limits, measured: a column of every kernel table."""

from __future__ import annotations

import ctypes
import os
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, Callable

import torch

SOURCE = Path(__file__).resolve().parent / "peers" / "machine.c"


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
        if "avx512_bf16" in flags:
            names.append("avx512_bf16")
    asked = os.environ.get("OPGRAFT_ISA", names[-1])
    return asked if asked in names else names[-1]


class Machine:
    """Limits of so many threads; each measured as the best of a few runs."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.isa = instruction_set()
        self._rates: dict[str, float] = {}
        folder = tempfile.mkdtemp()
        path = Path(folder) / "machine.so"
        subprocess.run(
            [os.environ.get("CC", "cc"), "-std=gnu11", "-O3", "-march=native",
             "-fPIC", "-shared", str(SOURCE), "-o", str(path)], check=True)
        self._lib = ctypes.CDLL(str(path))
        for name in ("fma_avx2", "fma_avx512", "dot_bf16"):
            function = getattr(self._lib, name)
            function.restype = ctypes.c_double
            function.argtypes = [ctypes.c_int64]
        self._lib.read_memory.restype = ctypes.c_uint64
        self._lib.read_memory.argtypes = [ctypes.c_void_p, ctypes.c_size_t]

    def _together(self, run: Callable[[int], Any]) -> float:
        """Seconds until all threads are done, the best of twenty."""
        best = float("inf")
        for _ in range(20):
            crew = [threading.Thread(target=run, args=(i,))
                    for i in range(self.threads)]
            begin = time.perf_counter()
            for member in crew:
                member.start()
            for member in crew:
                member.join()
            best = min(best, time.perf_counter() - begin)
        return best

    def flops(self, dtype: torch.dtype) -> float:
        """GFLOP/s: FMA of the set in use; for bf16 its dots where they are
        faster."""
        fma = self._rate("fma_avx2" if self.isa == "avx2" else "fma_avx512")
        if dtype == torch.bfloat16 and self.isa == "avx512_bf16":
            return max(fma, self._rate("dot_bf16"))
        return fma

    def dots_over_fma(self) -> float:
        return self._rate("dot_bf16") / self._rate("fma_avx512")

    def _rate(self, name: str) -> float:
        if name not in self._rates:
            rounds = 3_000_000
            run = getattr(self._lib, name)
            work = run(1000) / 1000 * rounds * self.threads
            seconds = self._together(lambda _: run(rounds))
            self._rates[name] = work / seconds / 1e9
        return self._rates[name]

    def bandwidth(self) -> float:
        """GB/s of reading memory that no cache holds."""
        part = 192 << 20
        data = torch.ones(self.threads * part // 4)
        seconds = self._together(
            lambda i: self._lib.read_memory(data.data_ptr() + i * part, part))
        return self.threads * part / seconds / 1e9


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
