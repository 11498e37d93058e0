#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each model in eager mode and compiled: inference, and a training step.

A process for each, both ways interleaved, at the published widths with two
layers; ratios of minima.
"""

from __future__ import annotations

import argparse
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


def case(f: Any, args: Any, kwargs: Any, is_training: bool) -> Any:
    def infer(count: int) -> None:
        with torch.no_grad():
            for _ in range(count):
                f(*args, **kwargs)

    def step(count: int) -> None:
        for _ in range(count):
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
        cases = {n: case(f, args, kwargs, kind == "training")
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
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true",
                        help="one small model, to see that it runs")
    parser.add_argument("--model", action="append", choices=list(models.ALL),
                        help="only this one, or these; nothing is written")
    parser.add_argument("--rows", type=Path, metavar="FILE",
                        help="keeps what is measured there, and takes from it "
                        "what was: for a run in parts")
    options = parser.parse_args()
    goals = harness.Goals("models_time")
    width = "small" if options.smoke else "full"
    rows = each.Rows(options.rows)
    for name in (["mlp_dropout"] if options.smoke
                 else options.model or list(models.ALL)):
        if name not in rows:
            rows.keep(name, each.one(Path(__file__), [
                name, width, str(harness.LEAST_BLOCKS)]))
        for kind in KINDS if models.ALL[name].trained else KINDS[:1]:
            what = f"{name}, {kind}: time / eager's"
            if "error" in rows[name]:
                goals.absent(what, rows[name]["error"])
            elif kind not in rows[name]:
                goals.noisy(what)
            else:
                times = rows[name][kind]
                print(f"{name}, {kind}: eager {times['eager']:.3f} ms, "
                      f"opgraft {times['opgraft']:.3f} ms")
                goals.add(what, times["opgraft"] / times["eager"], RATIO_MAX)
    if not options.smoke and not options.model:
        goals.write(["bench/models.py", "hosts/torch", "src/exec",
                     "src/import", "src/pass", "tests/python/graph/models.py"],
                    {"rows": rows})


if __name__ == "__main__":
    main()
