#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two trees in turns: what a change does to the time of every bench row.

Each tree has its own .venv with its own build. A bench of each tree runs in
alternating processes; every row that `harness.measure` timed in both is
compared by the ratio of minima over all blocks. Rows of rivals are printed as
the noise of the machine: the same code ran in both trees.

  bench/turns.py --before ../old call overhead -- --smoke

Without --before the tree is compared with itself: the noise of the machine.

With --relative each of our rows is divided by what its rival changed, which is
the same code and ran in the same processes, block by block beside ours: what
the machine did to both cancels, where models take seconds each and no two
processes are alike.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
from pathlib import Path

import harness

GEOMEAN_MAX = 1.02
ROW_MAX = 1.05
TURNS = 3  # processes of each tree, in each attempt
OURS = ("ours", "opgraft", "frozen", "lanes", "plan")

# Runs a bench with a measure() that also writes down what it timed, and lets it
# write no results. Rows are told apart by the order of the calls and the name
# of the case. A bench over models measures in children (each.py), which give
# the least of as many blocks as count.
RECORDER = """
import json, runpy, sys
out, script, *rest = sys.argv[1:]
sys.path.insert(0, script.rpartition("/")[0])
import harness, each
measure, one, calls, rows = harness.measure, each.one, [0], {}
def keep(row, least, count):
    rows[f"{calls[0]} {row}"] = [least, count]
    with open(out, "w") as file:
        json.dump(rows, file)
def recorded(*args, **kwargs):
    calls[0] += 1  # one that is too noisy counts too
    found = measure(*args, **kwargs)
    for name, timing in found.items():
        keep(name, timing.least, len(timing.blocks))
    return found
def recorded_one(script, words):
    calls[0] += 1
    found = one(script, words)
    for kind, times in found.items():
        if isinstance(times, dict) and "opgraft" in times:
            keep(f"{words[0]}, {kind}: opgraft", times["opgraft"], harness.LEAST_BLOCKS)
            keep(f"{words[0]}, {kind}: eager", times["eager"],
                 harness.LEAST_BLOCKS)
    return found
harness.measure, each.one = recorded, recorded_one
harness.results.write = lambda *args, **kwargs: None
sys.argv = [script, *rest]
runpy.run_path(script, run_name="__main__")
"""

Rows = dict[str, tuple[float, int]]


def run(tree: Path, bench: str, arguments: list[str]) -> Rows:
    """Of each row the least time and how many blocks it is the least of."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "rows.json"
        done = subprocess.run(
            [tree / ".venv/bin/python", "-c", RECORDER, str(out),
             str(tree / f"bench/{bench}.py"), *arguments],
            cwd=tree, capture_output=True, text=True)
        if not out.exists():
            raise SystemExit(f"{tree}/bench/{bench}.py measured nothing:\n"
                             f"{done.stdout[-2000:]}{done.stderr[-2000:]}")
        return {row: (least, count) for row, (least, count)
                in json.loads(out.read_text()).items()}


def attempt(trees: dict[str, Path], bench: str, arguments: list[str],
            turns: int) -> dict[str, float]:
    """After over before, of each row."""
    found: dict[str, Rows] = {which: {} for which in trees}
    for turn in range(turns):
        order = list(trees) if turn % 2 == 0 else list(reversed(trees))
        for which in order:
            for row, (least, count) in run(trees[which], bench,
                                           arguments).items():
                known, blocks = found[which].get(row, (math.inf, 0))
                found[which][row] = min(known, least), blocks + count
    before = found["before"]
    return {row: least / before[row][0]
            for row, (least, count) in found["after"].items()
            if row in before
            and min(count, before[row][1]) >= harness.LEAST_BLOCKS}


def is_ours(row: str) -> bool:
    return any(word in row for word in OURS)


def geomean(ratios: dict[str, float]) -> float:
    return math.exp(sum(map(math.log, ratios.values())) / len(ratios))


def of_ours(ratios: dict[str, float], want: bool) -> dict[str, float]:
    return {row: r for row, r in ratios.items() if is_ours(row) == want}


def quiet(ratios: dict[str, float]) -> dict[str, float]:
    """Our rows of those measurements in which the rivals, the same code twice,
    ran alike; all of ours where a measurement has no rival."""
    loud = {row.split()[0] for row, ratio in of_ours(ratios, False).items()
            if not 1 / ROW_MAX <= ratio <= ROW_MAX}
    return {row: ratio for row, ratio in of_ours(ratios, True).items()
            if row.split()[0] not in loud}


def relative(ratios: dict[str, float]) -> dict[str, float]:
    """Ours over the geometric mean of the rivals of the same measurement, which
    has the same number and the same words up to the colon."""
    def of(row: str) -> str:
        return row.rpartition(":")[0] or row.split()[0]

    rivals: dict[str, dict[str, float]] = {}
    for row, ratio in of_ours(ratios, False).items():
        rivals.setdefault(of(row), {})[row] = ratio
    return {row: ratio / geomean(rivals[of(row)])
            for row, ratio in of_ours(ratios, True).items()
            if of(row) in rivals}


def holds(ours: dict[str, float]) -> bool:
    return (bool(ours) and max(ours.values()) <= ROW_MAX
            and geomean(ours) <= GEOMEAN_MAX)


def judge(bench: str, trees: dict[str, Path], arguments: list[str],
          asked: argparse.Namespace, goals: harness.Goals) -> None:
    best: dict[str, float] = {}
    for _ in range(asked.attempts):
        found = attempt(trees, bench, arguments, asked.turns)
        if asked.relative:
            found = relative(found)
        for row, ratio in found.items():
            best[row] = min(best.get(row, ratio), ratio)
        ours = quiet(best)
        if holds(ours) and 2 * len(ours) >= len(of_ours(best, True)):
            break
    print(f"\n{bench}: after / before{', over the same of rivals' * asked.relative}"
          ", least of the attempts")
    for row, ratio in best.items():
        print(f"  {row:<60} {ratio:6.3f}{'' if is_ours(row) else '  (rival)'}")
    every, rivals = of_ours(best, True), of_ours(best, False)
    if rivals:
        goals.limit(f"{bench}: rivals, the same code twice", geomean(rivals))
    ours = quiet(best)
    if len(ours) < len(every):
        print(f"{len(every) - len(ours)} of {len(every)} rows are left out: "
              "rivals beside them, the same code twice, differ by more than "
              f"{ROW_MAX}")
    if 2 * len(ours) < len(every) or not every:
        goals.noisy(f"{bench}: after / before")
        return
    goals.add(f"{bench}: geometric mean of after / before", geomean(ours),
              GEOMEAN_MAX)
    worst = max(ours, key=lambda row: ours[row])
    goals.add(f"{bench}: worst row ({worst})", ours[worst], ROW_MAX)


def main() -> None:
    words = sys.argv[1:]
    cut = words.index("--") if "--" in words else len(words)
    own = Path(__file__).resolve().parents[1]
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, default=own)
    parser.add_argument("--after", type=Path, default=own)
    parser.add_argument("--turns", type=int, default=TURNS,
                        help="processes of each tree, in each attempt")
    parser.add_argument("--attempts", type=int, default=harness.ATTEMPTS)
    parser.add_argument("--relative", action="store_true",
                        help="ours over what its rivals changed")
    parser.add_argument("--smoke", action="store_true",
                        help="one short turn, to see that it runs")
    parser.add_argument("benches", nargs="*",
                        help="call, the default, overhead...; behind --, their "
                        "own options")
    asked = parser.parse_args(words[:cut])
    options = words[cut + 1:]
    if asked.smoke:
        asked.turns, asked.attempts, options = 1, 1, ["--smoke"]
    # One short turn is of the quickest bench.
    benches = asked.benches or ["gemm" if asked.smoke else "call"]
    trees = {"before": asked.before.resolve(), "after": asked.after.resolve()}
    goals = harness.Goals("turns")
    for bench in benches:
        judge(bench, trees, options, asked, goals)


if __name__ == "__main__":
    main()
