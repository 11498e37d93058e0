# SPDX-License-Identifier: Apache-2.0
"""Interleaved timing: what every bench/*.py measures and prints with.

Cases run in turn, block by block, so that a machine whose speed drifts drifts
for all of them. A figure is the ratio of minima. A block during which other
processes held the cores is thrown away; when too few are left the answer is
`too noisy`, and nothing else.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import os
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Iterable, Iterator

sys.path.append(str(Path(__file__).resolve().parents[1] / "tools"))
import results  # noqa: E402

BLOCKS = 15
LEAST_BLOCKS = 7
FOREIGN_SHARE = 0.25  # of the machine, by other processes, in one block
ATTEMPTS = 3
GOAL_HEADS = ["goal", "figure", "bound", ""]
M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4  # of mallopt
LONG_NS = 1e8  # work that needs no warming but its first call


def busy_ticks() -> int:
    """Time that all processes ran, in clock ticks."""
    fields = Path("/proc/stat").read_text().splitlines()[0].split()[1:]
    user, nice, system, _, _, irq, softirq, *rest = map(int, fields)
    return user + nice + system + irq + softirq + (rest[0] if rest else 0)


FOLLOWED: set[int] = set()  # processes that run for the cases, still alive


def own_ticks() -> float:
    times = os.times()
    tick = os.sysconf("SC_CLK_TCK")
    ticks = (times.user + times.system + times.children_user
             + times.children_system) * tick
    for pid in FOLLOWED:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks


def memory_keep() -> None:
    """Freed memory stays with the process: results would else be pages that
    the system clears at every call, for each contender."""
    libc = ctypes.CDLL(None)
    libc.mallopt(M_MMAP_MAX, 0)
    libc.mallopt(M_TRIM_THRESHOLD, 2**31 - 1)


@dataclass
class Timing:
    """Nanoseconds a call, one entry for each block that counted."""

    blocks: list[float] = field(default_factory=list)

    @property
    def least(self) -> float:
        return min(self.blocks)

    @property
    def median(self) -> float:
        return sorted(self.blocks)[len(self.blocks) // 2]


class TooNoisy(Exception):
    pass


def _repeats(run: Callable[[int], Any], block_ns: float) -> int:
    """How often a block repeats the case, which is warm afterwards."""
    begin = time.perf_counter_ns()
    run(1)
    if time.perf_counter_ns() - begin > max(block_ns, LONG_NS):
        return 1
    run(2)
    begin = time.perf_counter_ns()
    run(5)
    each = max((time.perf_counter_ns() - begin) / 5, 1)
    count = max(1, int(block_ns / each))
    run(count)
    return count


def _row(cases: dict[str, Callable[[int], Any]], counts: dict[str, int],
         pause_s: float) -> dict[str, float] | None:
    """Each case once, in ns; None where others used the processor."""
    tick = os.sysconf("SC_CLK_TCK")
    cores = os.cpu_count() or 1
    busy, own, begin = busy_ticks(), own_ticks(), time.perf_counter()
    row = {}
    for name, run in cases.items():
        if pause_s:
            time.sleep(pause_s)
        start = time.perf_counter_ns()
        own_ns = run(counts[name])
        took_ns = time.perf_counter_ns() - start
        row[name] = (took_ns if own_ns is None else own_ns) / counts[name]
    wall = time.perf_counter() - begin
    foreign = (busy_ticks() - busy) - (own_ticks() - own)
    # Below a few ticks the count says nothing.
    is_disturbed = foreign > max(3, FOREIGN_SHARE * wall * tick * cores)
    return None if is_disturbed else row


def measure(
    cases: dict[str, Callable[[int], Any]],
    *,
    block_ns: float = 3e6,
    blocks: int = BLOCKS,
    pause_s: float = 0,
) -> dict[str, Timing]:
    """Times each case; a case is called with how often to repeat its work, and
    returns None or how many ns of it count.
    Between two cases the machine rests for `pause_s`: threads of the one may
    spin after their work, on cores that the next one uses."""
    counts = {name: _repeats(run, block_ns) for name, run in cases.items()}
    out = {name: Timing() for name in cases}
    gc.collect()
    gc.disable()
    try:
        for _ in range(blocks * 3):
            for name, value in (_row(cases, counts, pause_s) or {}).items():
                out[name].blocks.append(value)
            if len(out[next(iter(cases))].blocks) >= blocks:
                break
    finally:
        gc.enable()
    if len(next(iter(out.values())).blocks) < LEAST_BLOCKS:
        raise TooNoisy
    return out


def least(cases: dict[str, Callable[[int], Any]], ratio_max: float,
          attempts: int, *, block_ns: float, blocks: int) -> dict[str, float]:
    """The least ms of each case; empty where the machine was too busy. More
    attempts where the last case takes over `ratio_max` of the first."""
    best: dict[str, float] = {}
    first, last = list(cases)[0], list(cases)[-1]
    for _ in range(attempts):
        try:
            rows = measure(cases, block_ns=block_ns, blocks=blocks)
        except TooNoisy:
            continue
        for name, t in rows.items():
            best[name] = min(best.get(name, t.least), t.least)
        if best[last] <= ratio_max * best[first]:
            break
    return {name: t / 1e6 for name, t in best.items()}


def loop(code: str, **names: Any) -> Callable[[int], Any]:
    """A case that repeats one expression, bound as locals."""
    parameters = ", ".join(f"{n}={n}" for n in names)
    source = (f"def _loop(_count, {parameters}):\n"
              f"    for _ in range(_count): {code}\n")
    space = dict(names)
    exec(source, space)
    return space["_loop"]


def print_table(title: str, rows: dict[str, Timing], unit: float = 1,
                name: str = "ns") -> None:
    print(f"\n{title} ({name}: min / median)")
    for label, timing in rows.items():
        print(f"  {label:<46} {timing.least / unit:10.1f} "
              f"/ {timing.median / unit:10.1f}")


def markdown(heads: list[str], body: Iterable[list[str]]) -> list[str]:
    """Lines of a table, and the empty one behind it."""
    return ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads),
            *("| " + " | ".join(c.replace("*", "\\*") for c in cells) + " |"
              for cells in body), ""]


def start(doc: str | None, name: str) -> tuple[bool, int, int, Goals]:
    """Reads --smoke: whether it is given, blocks, attempts, and the goals."""
    parser = argparse.ArgumentParser(description=doc)
    parser.add_argument("--smoke", action="store_true",
                        help="one short attempt, to see that it runs")
    if parser.parse_args().smoke:
        return True, LEAST_BLOCKS, 1, Goals(name)
    return False, BLOCKS, ATTEMPTS, Goals(name)


@dataclass
class Goals:
    """Goal lines, and the results file that they go to."""

    name: str
    lines: list[dict[str, Any]] = field(default_factory=list)

    def add(self, what: str, figure: float, bound: float, *,
            at_most: bool = True, unit: str = "") -> None:
        holds = figure <= bound if at_most else figure >= bound
        sign = "<=" if at_most else ">="
        self._line(what, f"{figure:.3g}{unit}", f"{sign} {bound:g}{unit}",
                   "holds" if holds else "falls short", figure)

    def absent(self, what: str, reason: str) -> None:
        self._line(what, reason, "no rival", "falls short", None)

    def limit(self, what: str, figure: float) -> None:
        """What bounds a goal on this machine, measured beside it."""
        print(f"limit: {what} {figure:.3g}")
        self.lines.append({"what": what, "figure": figure,
                           "verdict": "limit"})

    def noisy(self, what: str) -> None:
        print(f"goal: {what} too noisy")
        self.lines.append({"what": what, "verdict": "too noisy"})

    def _line(self, what: str, figure: str, bound: str, verdict: str,
              value: float | None) -> None:
        print(f"goal: {what} {figure} ({bound}) {verdict}")
        self.lines.append({"what": what, "figure": value, "bound": bound,
                           "verdict": verdict})

    def table(self) -> Iterator[list[str]]:
        """A row of cells for each line, under GOAL_HEADS."""
        for line in self.lines:
            figure = line.get("figure")
            yield [line["what"], f"{figure:.3g}" if figure is not None else "",
                   line.get("bound", ""), line["verdict"]]

    def write(self, measured: Iterable[Path | str],
              more: dict[str, Any] | None = None) -> None:
        results.write(self.name, measured, {"goals": self.lines, **(more or {})})


def judged(
    attempt: Callable[[], dict[str, float]],
    bounds: dict[str, tuple[float, bool]],
    goals: Goals,
    attempts: int = ATTEMPTS,
) -> None:
    """Up to three attempts before `falls short`: the best figure counts."""
    best: dict[str, float] = {}
    is_noisy = False
    for _ in range(attempts):
        try:
            figures = attempt()
        except TooNoisy:
            is_noisy = True
            continue
        for what, figure in figures.items():
            _, at_most = bounds[what]
            known = best.get(what)
            if known is None or (figure < known) == at_most:
                best[what] = figure
        if all((best[w] <= b) == m or best[w] == b
               for w, (b, m) in bounds.items() if w in best):
            break
    for what, (bound, at_most) in bounds.items():
        if what in best:
            goals.add(what, best[what], bound, at_most=at_most)
        elif is_noisy:
            goals.noisy(what)
