# SPDX-License-Identifier: Apache-2.0
"""Which rows of a run are excused, and what of a list is no longer true."""

from __future__ import annotations

import fnmatch
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Iterable

KINDS = ("torch", "internals")
BASELINES = ("aot_eager", "linear", "inductor")
PASSED, BY_US, SKIPPED = "passed", "by us", "skipped"
Row = dict[str, Any]


@dataclass(frozen=True)
class Excuse:
    kind: str  # of KINDS
    baseline: str  # of BASELINES: it fails too
    text: str  # with a text that holds this
    file: str
    test: str  # Class.test, with * where one text is of all such tests
    only: frozenset[str] = field(default_factory=frozenset)  # modes, sizes

    def covers(self, row: Row) -> bool:
        return (row["file"] == self.file
                and fnmatch.fnmatchcase(row["test"], self.test)
                and (not self.only or bool(
                    self.only & {row["mode"], row["sizes"]})))


def plain(text: str) -> str:
    """Without line numbers, which move with every version."""
    return re.sub(r"(\.py):\d+", r"\1", " ".join(text.split()))


def excuses_read(text: str) -> list[Excuse]:
    """Raises ValueError at a line that has another form."""
    found: list[Excuse] = []
    head: tuple[str, str, str] | None = None
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or line.startswith("#"):
            continue
        if line.startswith(" "):
            if head is None or len(words) < 2:
                raise ValueError(f"line {number}: expected FILE CLASS.TEST "
                                 "below a reason")
            found.append(Excuse(*head, words[0], words[1],
                                frozenset(words[2:])))
            continue
        match = re.fullmatch(r'(\w+) (\w+): (\S.*)', line)
        if (match is None or match[1] not in KINDS
                or match[2] not in BASELINES):
            raise ValueError(
                f"line {number}: expected one of {', '.join(KINDS)}, who fails "
                f"too ({', '.join(BASELINES)}) and what that one says")
        head = match[1], match[2], plain(match[3])
    return found


def verdict(row: Row, excuses: Iterable[Excuse]) -> tuple[str, str]:
    """What the row counts as, and what is wrong about it or its excuse."""
    name = f"{row['file']} {row['test']} {row['mode']} {row['sizes']}"
    mine = [e for e in excuses if e.covers(row)]
    if row["status"] == "skipped":
        return SKIPPED, ""
    if row["status"] == "passed":
        return PASSED, f"{name}: passes, and is excused" if mine else ""
    told = row.get("baseline", {})
    for excuse in mine:
        if excuse.text in plain(told.get(excuse.baseline) or ""):
            return excuse.kind, ""
    failing = [f"{b} fails too: {plain(t)[:200]}" for b, t in told.items()
               if t]
    if mine:
        failing.insert(0, f"excused by {mine[0].baseline}'s {mine[0].text!r}")
    return BY_US, "\n    ".join([
        f"{name}: {row['status']}: {plain(row.get('text', ''))[:300]}",
        row.get("where", ""), *failing])


def judged(rows: Iterable[Row], excuses: list[Excuse]
           ) -> tuple[dict[tuple[str, str, str], Counter[str]], list[str]]:
    """Counts by file, mode and sizes; and problems, of which none is right."""
    counts: dict[tuple[str, str, str], Counter[str]] = {}
    problems = []
    for row in rows:
        kind, problem = verdict(row, excuses)
        counts.setdefault((row["file"], row["mode"], row["sizes"]),
                          Counter())[kind] += 1
        if problem:
            problems.append(problem)
    return counts, problems
