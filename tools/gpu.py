#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs all that needs a GPU, and keeps what it printed.

    tools/gpu.py [--out FILE.json]

The driver beside PyTorch, the operators' CUDA kernels, captured graphs, and the
host's time of a call. Of each part: passed, failed, seconds, and its lines of
times and ratios. The parts run whatever the others did. Without a GPU nothing
is run, and nothing is said to have passed. Ends with `N passed, N failed`.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import re
import subprocess
import sys
import time
from typing import Any

import results

ROOT = pathlib.Path(__file__).resolve().parents[1]
PARTS = {
    "driver": ["tests/gpu/test_driver.py"],
    "operators": ["-m", "pytest", "-q", "-rA", "-p", "no:cacheprovider",
                  "tests/gpu/test_ops.py"],
    "graphs": ["tests/gpu/test_graphs.py"],
    "calls": ["bench/cuda.py"],
}
PART_S = 300
MEASURED = ["devices/cuda", "ops/cuda", "include/opgraft/cuda.h",
            "include/opgraft/cuda_kernel.h", "hosts/torch/base/cuda.c",
            "hosts/torch/graph/capture.c", "hosts/torch/graph/captured.c",
            "python/opgraft/_graph/captures.py", "python/opgraft/_graph/cuda.py",
            "tests/gpu", "bench/cuda.py"]
COUNTS = re.compile(r"(\d+) passed(?:, (\d+) failed)?")
# Figures, and what a goal is.
LINES = re.compile(r"^(?:time|ratio|goal): .+|.+ (?:GB/s|us) .+")
GPU = """
import torch
if torch.cuda.is_available():
    print(torch.__version__, torch.cuda.get_device_name(), sep=", ")
"""


def counts_of(output: str, status: int) -> tuple[int, int]:
    found = COUNTS.findall(output)
    passed, failed = (int(found[-1][0]), int(found[-1][1] or 0)) \
        if found else (int(status == 0), 0)
    if status != 0 and failed == 0:
        failed = 1
    return passed, failed


def part(name: str, words: list[str]) -> dict[str, Any]:
    print(f"=== {name}", flush=True)
    begin = time.monotonic()
    try:
        done = subprocess.run(
            [sys.executable, *words], cwd=ROOT, text=True, timeout=PART_S,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        output, status = done.stdout, done.returncode
    except subprocess.TimeoutExpired as error:
        held = error.stdout or b""
        output = held.decode() if isinstance(held, bytes) else held
        output, status = f"{output}\nstopped after {PART_S} s\n", -1
    seconds = time.monotonic() - begin
    passed, failed = counts_of(output, status)
    shown = [x for x in output.splitlines() if not x.startswith("PASSED")]
    print("\n".join(shown))
    print(f"=== {name}: {passed} passed, {failed} failed, {seconds:.0f} s",
          flush=True)
    return {"passed": passed, "failed": failed, "seconds": round(seconds, 1),
            "lines": [x for x in shown if LINES.fullmatch(x)]}


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n")[0])
    parser.add_argument("--out", type=pathlib.Path,
                        default=results.RESULTS / "cuda.json")
    out = parser.parse_args().out
    gpu = subprocess.run([sys.executable, "-c", GPU], text=True,
                         capture_output=True).stdout.strip()
    if not gpu:
        print("torch finds no CUDA device: the parts for GPUs are unproved")
        print("0 passed, 0 failed")
        return 0
    print(gpu)
    parts = {name: part(name, words) for name, words in PARTS.items()}
    passed = sum(p["passed"] for p in parts.values())
    failed = sum(p["failed"] for p in parts.values())
    kept = results.RESULTS / "cuda.json"
    goals = json.loads(kept.read_text()).get("goals", []) \
        if kept.exists() else []
    results.write("cuda", MEASURED, {"gpu": gpu, "parts": parts,
                                     "goals": goals})
    if out != kept:
        out.write_text(kept.read_text())
    print(f"{passed} passed, {failed} failed")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
