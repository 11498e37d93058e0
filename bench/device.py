#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a call and a replay on a device cost the host, until they return.

Kernels that do nothing, on the simulated NPU without delays: an operator with
a fresh result beside the same one on the CPU, and frozen graphs whose input is
another tensor at each call. In a chain two nodes change with it, the first and
the last; where every node reads the input, all do. Calls come in batches of 16,
and the wait for the device between two batches does not count. With the race
detector the same again, in a process of its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Callable

sys.path.insert(0, str(Path(__file__).resolve().parent))
import harness  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
DRIVER = ROOT / "build/devices/npu_sim.so"
SOURCE = ROOT / "bench/peers/hold.c"
BATCH = 16
SHORT, LONG = 10, 200
CALL = "a call with a fresh result, on the device / on the CPU"
REPLAY = f"a replay of {SHORT} nodes, 2 of which change (us)"
CHANGE = "a replay, for each node more that changes (ns)"
OTHER = "a replay, for each node more that does not (ns)"
# What the issue says of the others is that they cost nothing.
BOUNDS = {CALL: (1.5, True), REPLAY: (3.0, True), CHANGE: (10.0, True),
          OTHER: (1.0, True)}


def batches(call: Callable[[int], Any], wait: Callable[[], Any]
            ) -> Callable[[int], int]:
    """A case of `call`, which is given the number of the call."""
    def run(count: int) -> int:
        took_ns = 0
        for begin in range(0, count, BATCH):
            numbers = range(begin, min(begin + BATCH, count))
            start = time.perf_counter_ns()
            for i in numbers:
                call(i)
            took_ns += time.perf_counter_ns() - start
            wait()
        return took_ns

    return run


def graph(op: Any, count: int, is_wide: bool) -> Callable[..., Any]:
    def f(x: Any, y: Any) -> Any:
        for _ in range(count):
            y = op(x, y) if is_wide else op(y, y)
        return y

    return f


def cases(folder: Path, options: str) -> dict[str, Callable[[int], Any]]:
    import torch

    import opgraft

    opgraft.load_device(DRIVER, options)
    library = folder / "hold.so"
    subprocess.run([str(ROOT / "build/bin/opgraft"), "build", str(SOURCE),
                    "-o", str(library)], check=True, capture_output=True)
    m = opgraft.load(library)
    hold = m.hold
    xs = [torch.zeros(16) for _ in range(2)]
    there = [x.npu() for x in xs]
    wait = torch.npu.synchronize
    made = {"an operator, CPU": batches(lambda i: hold(xs[i & 1]), wait),
            "an operator": batches(lambda i: hold(there[i & 1]), wait)}
    for kind, is_wide in (("a chain", False), ("the input in all", True)):
        for count in (SHORT, LONG):
            f = opgraft.freeze(graph(m.join, count, is_wide),
                               (there[0], there[1]))
            made[f"{kind}, {count} nodes"] = batches(
                (lambda i, f=f: f(there[i & 1], there[0])) if is_wide else
                (lambda i, f=f: f(there[0], there[i & 1])), wait)
    return made


def worker(options: str, blocks: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        try:
            rows = harness.measure(cases(Path(name), options), blocks=blocks)
        except harness.TooNoisy:
            print(json.dumps(None))
        else:
            print(json.dumps({k: v.blocks for k, v in rows.items()}))


def rows_with(options: str, blocks: int) -> dict[str, harness.Timing]:
    done = subprocess.run(
        [sys.executable, __file__, "--rows", options, str(blocks)],
        capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(done.stderr[-2000:])
    found = json.loads(done.stdout.splitlines()[-1])
    if found is None:
        raise harness.TooNoisy
    rows = {name: harness.Timing(times) for name, times in found.items()}
    harness.print_table(options or "without the race detector", rows)
    return rows


def figures(rows: dict[str, harness.Timing]) -> dict[str, float]:
    least = {name: timing.least for name, timing in rows.items()}

    def slope(kind: str) -> float:
        return (least[f"{kind}, {LONG} nodes"]
                - least[f"{kind}, {SHORT} nodes"]) / (LONG - SHORT)

    return {CALL: least["an operator"] / least["an operator, CPU"],
            REPLAY: least[f"a chain, {SHORT} nodes"] / 1e3,
            CHANGE: slope("the input in all"), OTHER: slope("a chain")}


def main() -> None:
    is_smoke, blocks, attempts, goals = harness.start(__doc__, "device")

    def attempt() -> dict[str, float]:
        plain = rows_with("", blocks)
        watched = rows_with("races=1", blocks)
        print("  the race detector's factor: " + ", ".join(
            f"{name} {watched[name].least / plain[name].least:.2f}"
            for name in plain if "CPU" not in name))
        return figures(plain)

    harness.judged(attempt, BOUNDS, goals, attempts)
    if not is_smoke:
        goals.write([Path(__file__), SOURCE, *(
            path for folder in ("devices", "src/device", "src/exec",
                                "hosts/torch/device")
            for path in sorted((ROOT / folder).glob("*.[ch]*")))])


if __name__ == "__main__":
    if sys.argv[1:2] == ["--rows"]:
        worker(sys.argv[2], int(sys.argv[3]))
    else:
        main()
