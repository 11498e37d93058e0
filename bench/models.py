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
ATTEMPTS = 2
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


# What a call costs by itself, before any backend has done something: Dynamo's
# guards, and for a training step AOTAutograd's wrappers around both graphs.
FLOOR = {"inference": "eager", "training": "aot_eager"}


def timed(model: Any, backend: str, call: tuple[Any, Any], kind: str,
          blocks: int) -> dict[str, float]:
    """Least ms of eager and compiled; empty where the machine was too busy."""
    torch._dynamo.reset()
    compiled = torch.compile(model, backend=backend)
    cases = {n: case(model, f, *call, kind == "training")
             for n, f in (("eager", model), ("compiled", compiled))}
    return harness.least(cases, RATIO_MAX, ATTEMPTS, block_ns=BLOCK_NS,
                         blocks=blocks)


def run_one(name: str, width: str, blocks: int) -> dict[str, Any]:
    torch.manual_seed(1)
    entry = models.ALL[name]
    model, args, kwargs = entry.build(width == "full")
    found: dict[str, Any] = {}
    for kind in KINDS if entry.trained else KINDS[:1]:
        model.train(kind == "training")
        call = args, kwargs
        times = timed(model, "opgraft", call, kind, blocks)
        if not times:
            continue
        found[kind] = {"eager": times["eager"], "opgraft": times["compiled"]}
        if times["compiled"] > RATIO_MAX * times["eager"]:
            floor = timed(model, FLOOR[kind], call, kind, blocks)
            if floor:
                found[kind]["floor"] = floor["compiled"] / floor["eager"]
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
                if "floor" in times:
                    goals.limit(f"{what}, backend {FLOOR[kind]!r}",
                                times["floor"])
                goals.add(what, times["opgraft"] / times["eager"], RATIO_MAX)
    if asked.is_whole:
        goals.write(["bench/models.py", "hosts/torch", "src/exec",
                     "src/import", "src/pass", "tests/python/graph/models.py"],
                    {"rows": asked.rows})


if __name__ == "__main__":
    main()
