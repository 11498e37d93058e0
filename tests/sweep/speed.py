#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Architectures of transformers in eager mode and compiled with mode
max-autotune: time of a call, and distance to float64, eager's being 1.

The models are those of tests/doctor/architectures.txt, tiny and with random
weights: what a call costs beside its arithmetic counts most. A process for
each, both ways in turns, ratios of minima. Where ours takes longer than the
bound, Dynamo's own backend "eager" is timed too. Rows are kept in --rows, so
that a run goes on where one before ended; a whole run writes docs/speed.md.
"""

from __future__ import annotations

import statistics
import sys
from pathlib import Path
from typing import Any, Iterator

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/python/graph"), str(ROOT / "tests/doctor"),
                str(ROOT / "bench"), str(ROOT / "tools")]

import architectures  # type: ignore[import-not-found]  # noqa: E402
import compare  # type: ignore[import-not-found]  # noqa: E402
import each  # noqa: E402
import harness  # noqa: E402
import matrix  # type: ignore[import-not-found]  # noqa: E402
import results  # noqa: E402
import torch  # noqa: E402

import opgraft  # noqa: E402

RATIO_MAX = 1.05
BLOCK_NS = 30e6
DRAWS = 5  # of inputs
TIMEOUT_S = 600
PAGE = ROOT / "docs/speed.md"
MEASURED = ["src", "hosts/torch", "python/opgraft", "tests/sweep/speed.py",
            "tests/doctor/architectures.txt"]
LISTED = {one.config: one for one in architectures.listed()}


# --- One model ----------------------------------------------------------------


def calls(f: Any, arguments: dict[str, Any]) -> Any:
    def run(count: int) -> None:
        for _ in range(count):
            f(**arguments)
    return run


def timed(model: Any, compiled: Any, arguments: dict[str, Any]
          ) -> dict[str, float]:
    """Least ms of both; empty where the machine was too busy."""
    cases = {"eager": calls(model, arguments),
             "compiled": calls(compiled, arguments)}
    return harness.least(cases, RATIO_MAX, harness.ATTEMPTS, block_ns=BLOCK_NS,
                         blocks=harness.LEAST_BLOCKS)


def drawn(f: Any, arguments: dict[str, Any]) -> Any:
    torch.manual_seed(2)  # models that draw numbers draw the same ones
    return f(**arguments)


def distance(one: Any, model: Any, compiled: Any) -> dict[str, Any]:
    """The largest ratio over all results, or why there is none."""
    worst = matrix.Worst()
    exact = None
    for draw in range(DRAWS):
        arguments = one.arguments(draw)
        found = drawn(compiled, arguments)
        eager = drawn(model, arguments)
        try:
            if exact is None:
                exact = matrix.set_type(model, torch.float64)
            wanted = drawn(exact, matrix.convert(arguments, torch.float64))
            if has_nan(wanted) and not has_nan(eager):
                raise ValueError("NaN, where float32 has numbers")
        except Exception as error:  # a type that the model itself names
            first = (str(error).strip() or "no text").splitlines()[0]
            return {"inexact": f"{type(error).__name__}: {first}"[:200],
                    "eager": max(compare.errors(found, eager))}
        worst.add(found, eager, wanted)
    return {"ratio": worst.ratio, "where": worst.where}


def has_nan(result: Any) -> bool:
    return any(bool(t.isnan().any()) for t in matrix.values(result))


def run_one(config: str) -> dict[str, Any]:
    one = LISTED[config]
    model, arguments = one.build(), one.arguments()
    compiled = torch.compile(model, backend="opgraft", mode="max-autotune")
    with torch.no_grad():
        found = distance(one, model, compiled)
        times = timed(model, compiled, arguments)
        stats = opgraft.stats(compiled)
        found |= {"ms": times, "graphs": len(stats.graphs),
                  "nodes": stats.nodes, "native": stats.native}
        if times and times["compiled"] > RATIO_MAX * times["eager"]:
            torch._dynamo.reset()
            floor = timed(model, torch.compile(model, backend="eager"),
                          arguments)
            if floor:
                found["floor"] = floor["compiled"] / floor["eager"]
    return found


# --- All ----------------------------------------------------------------------


def speed(row: dict[str, Any]) -> float | None:
    """Eager's time / ours."""
    times = row.get("ms")
    return times["eager"] / times["compiled"] if times else None


def is_slow(row: dict[str, Any]) -> bool:
    found = speed(row)
    return found is not None and found < 1 / RATIO_MAX


def judge(rows: dict[str, dict[str, Any]], goals: harness.Goals) -> None:
    failed = [name for name, row in rows.items() if "error" in row]
    noisy = [name for name, row in rows.items() if row.get("ms") == {}]
    slow = [name for name, row in rows.items() if is_slow(row)]
    far = [name for name, row in rows.items()
           if not row.get("ratio", 0) <= matrix.FACTOR]
    inexact = {name: row["inexact"] for name, row in rows.items()
               if "inexact" in row}
    speeds = [s for row in rows.values() if (s := speed(row)) is not None]
    for name, reason in inexact.items():
        print(f"no float64 beside {name}: {reason}; distance to eager "
              f"{rows[name]['eager']:.2g}")
    goals.add(said("models that did not run", failed), len(failed), 0)
    if noisy:
        goals.noisy(said("times", noisy))
    if speeds:
        goals.add(f"eager's time / ours, mean of {len(speeds)}",
                  statistics.geometric_mean(speeds), 1, at_most=False)
    goals.add(said(f"models over {RATIO_MAX:g} x eager's time", slow), len(slow), 0)
    for name in slow:
        if "floor" in rows[name]:
            goals.limit(f"{name}: time with Dynamo's backend 'eager' / "
                        "eager's", rows[name]["floor"])
    goals.add(said(f"models over {matrix.FACTOR:g} x eager's distance to "
                   "float64", far), len(far), 0)


def said(what: str, names: list[str]) -> str:
    return f"{what} ({', '.join(names)})" if names else what


def line(name: str, row: dict[str, Any]) -> str:
    if "error" in row:
        return f"{name:<32} {row['error']}"
    times, found = row["ms"], speed(row)
    shown = (f"{times['eager']:>9.3f} {times['compiled']:>9.3f} {found:>6.2f}"
             if times else f"{'too noisy':>26}")
    far = f"{row['ratio']:>6.2f}" if "ratio" in row else f"{'':>6}"
    return (f"{name:<32} {shown} {far} {row['graphs']:>4} "
            f"{row['native']}/{row['nodes']}")


HEADS = ["Architecture", "eager, ms", "opgraft, ms", "eager / opgraft",
         "distance to float64 / eager's", "graphs", "nodes"]


def table(rows: dict[str, dict[str, Any]]) -> Iterator[list[str]]:
    """The fastest beside eager mode first."""
    for name in sorted(rows, key=lambda n: -(speed(rows[n]) or 0)):
        row = rows[name]
        if "error" in row:
            yield [name, row["error"], *[""] * (len(HEADS) - 2)]
            continue
        times = row["ms"]
        yield [name,
               *([f"{times['eager']:.3f}", f"{times['compiled']:.3f}",
                  f"{speed(row):.2f}"] if times else ["too noisy", "", ""]),
               f"{row['ratio']:.2f}" if "ratio" in row else "–",
               str(row["graphs"]), str(row["nodes"])]


def page(rows: dict[str, dict[str, Any]], goals: harness.Goals) -> str:
    return "\n".join([
        "# Architectures of transformers beside eager mode", "",
        f"`tests/sweep/speed.py` measured it on {results.processor()}, with "
        f"{torch.get_num_threads()} threads and transformers "
        f"{version()}: one call, mode max-autotune, without gradients. The "
        "models are tiny and have random weights, so that arithmetic is a small "
        "part of a call. –: in float64 the model does not run or gives NaN.",
        "", *harness.markdown(HEADS, table(rows)), "## Goals", "",
        *harness.markdown(harness.GOAL_HEADS, goals.table())])


def version() -> str:
    import transformers

    return str(transformers.__version__)


def main() -> None:
    if sys.argv[1:2] == ["--one"]:
        each.report(run_one(sys.argv[2]))
        return
    asked = each.asked(__doc__, LISTED, "BertConfig")
    goals = harness.Goals("speed")
    print(f"{'architecture':<32} {'eager':>9} {'opgraft':>9} {'ratio':>6} "
          f"{'error':>6} graphs, native nodes")
    for name, row in asked.rows.of(asked.names, lambda name: each.one(
            Path(__file__), [name], TIMEOUT_S)):
        print(line(name, row), flush=True)
    rows = {name: asked.rows[name] for name in asked.names}
    judge(rows, goals)
    if asked.is_whole:
        goals.write(MEASURED, {"rows": rows})
        PAGE.write_text(page(rows, goals))
    if asked.is_smoke and "error" in rows[asked.names[0]]:
        raise SystemExit("it did not run")


if __name__ == "__main__":
    main()
