#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long the first result of a compiled model takes, cold: each model and
backend in a fresh process with empty caches, the backends in turn.

Wall time and the CPU time of the process and its children, from the call of
torch.compile to the result, in inference and for a training step. Dynamo and
AOTAutograd are the same for all, so a backend takes aot_eager's time or more.
The backend's own time is bench/overhead.py's.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests/python/graph")]

import each  # noqa: E402
import harness  # noqa: E402
import models  # type: ignore[import-not-found]  # noqa: E402
import torch  # noqa: E402

import opgraft  # noqa: E402

BACKENDS = ("aot_eager", "opgraft", "inductor")


def cpu_s() -> float:
    t = os.times()
    return t.user + t.system + t.children_user + t.children_system


def run_one(name: str, backend: str, width: str) -> dict[str, Any]:
    torch.manual_seed(1)
    entry = models.ALL[name]
    model, args, kwargs = entry.build(width == "full")
    found: dict[str, Any] = {}
    for kind in ("inference", "training") if entry.trained else ("inference",):
        torch._dynamo.reset()
        model.train(kind == "training")
        begun, used = time.perf_counter(), cpu_s()
        compiled = torch.compile(model, backend=backend)
        if kind == "training":
            compiled(*args, **kwargs).float().square().mean().backward()
        else:
            with torch.no_grad():
                compiled(*args, **kwargs)
        found[kind] = {"wall_s": time.perf_counter() - begun,
                       "cpu_s": cpu_s() - used}
        if backend == "opgraft":
            found[kind]["backend_s"] = sum(
                g["backend_ns"] for g in opgraft.stats(compiled).graphs) / 1e9
    return found


def cold(name: str, width: str) -> dict[str, Any]:
    row = {}
    # Cut short, without what compiles C++ for a minute.
    for backend in BACKENDS[:2] if width == "small" else BACKENDS:
        with tempfile.TemporaryDirectory() as cache:
            os.environ["TORCHINDUCTOR_CACHE_DIR"] = cache
            row[backend] = each.one(Path(__file__), [name, backend, width])
    return row


def show(name: str, row: dict[str, Any]) -> None:
    for kind in ("inference", "training"):
        if any(kind in r for r in row.values()):
            print(f"{name:<26}{kind:<10}" + "".join(
                f"{r[kind]['wall_s']:>9.2f}{r[kind]['cpu_s']:>8.2f}"
                if kind in r else f"  {r.get('error', '-'):<15.15}"
                for r in row.values()), flush=True)


def judge(goals: harness.Goals, kind: str, rival: str, bound: float,
          rows: Any) -> None:
    """The worst model; all together beside it, as what one cold process takes
    swings by half."""
    seconds = {n: (r["opgraft"][kind]["cpu_s"], r[rival][kind]["cpu_s"])
               for n, r in rows.items()
               if kind in r["opgraft"] and kind in r.get(rival, {})}
    what = f"{kind}: CPU time to the first result / {rival}'s"
    if not seconds:
        goals.absent(f"{what}, worst", "nothing ran")
        return
    ratios = {n: ours / theirs for n, (ours, theirs) in seconds.items()}
    worst = max(ratios, key=lambda n: ratios[n])
    goals.add(f"{what}, worst ({worst})", ratios[worst], bound)
    all_ours, all_theirs = (
        sum(each) for each in zip(*seconds.values(), strict=True))
    goals.limit(f"{what}, all models", all_ours / all_theirs)


def main() -> None:
    if sys.argv[1:2] == ["--one"]:
        each.report(run_one(*sys.argv[2:]))
        return
    asked = each.asked(__doc__, models.ALL, "lstm_cell")
    goals = harness.Goals("compile_time")
    width = "small" if asked.is_smoke else "full"
    print("cold, wall and CPU seconds: " + ", ".join(BACKENDS))
    for name, row in asked.rows.of(asked.names,
                                   lambda name: cold(name, width)):
        show(name, row)
    for kind in ("inference", "training"):
        for rival, bound in (("aot_eager", 1.1), ("inductor", 1.0)):
            judge(goals, kind, rival, bound, asked.rows)
    if asked.is_whole:
        goals.write(["bench/compile_time.py", "hosts/torch", "src/import",
                     "src/pass", "src/plan", "python/opgraft"],
                    {"rows": asked.rows})


if __name__ == "__main__":
    main()
