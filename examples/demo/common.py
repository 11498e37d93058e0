# SPDX-License-Identifier: Apache-2.0
"""What the scenes share: builds, times, the last line."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Callable

import torch

HERE = Path(__file__).resolve().parent
PROGRAM = str(Path(sys.executable).with_name("opgraft"))


def opgraft(*words: object, cwd: Path = HERE) -> str:
    """What the program prints; the scene ends where it fails."""
    done = subprocess.run([PROGRAM, *map(str, words)], text=True, cwd=cwd,
                          capture_output=True)
    if done.returncode:
        raise SystemExit(f"opgraft {words[0]}: {done.stdout}{done.stderr}")
    return done.stdout


def times(cases: dict[str, Callable[[], Any]], seconds: float = 1.0
          ) -> dict[str, float]:
    """Microseconds of each call, the least; the cases take turns."""
    least = dict.fromkeys(cases, float("inf"))
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for name, call in cases.items():
            begin = time.perf_counter()
            call()
            least[name] = min(least[name], time.perf_counter() - begin)
    return {name: 1e6 * value for name, value in least.items()}


def show(measured: dict[str, float]) -> None:
    for name, us in measured.items():
        print(f"  {name:<34}{us:10.1f} us")


def difference(found: torch.Tensor, expected: torch.Tensor) -> str:
    """The largest one, which must be within float rounding."""
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    return f"{(found - expected).abs().max().item():.0e}"
