#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a device does of what PyTorch's reference backend does, as a page.

    tools/device_behaviours.py [--check]

Reads the marks of tests/python/device/behaviours, whose expected failures are
strict, and not_applicable.txt beside them, and writes the tables of
docs/device-behaviours.md. What the mark `cxx` has passes with the C++ part. --check writes nothing and fails where the page is
another one.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[1]
TESTS = ROOT / "tests/python/device/behaviours"
PAGE = ROOT / "docs/device-behaviours.md"
BEGIN, END = "<!-- behaviours -->\n", "<!-- end -->\n"
PASSED, BY_CXX, CXX, OURS, OTHER = range(5)


class Row(NamedTuple):
    area: str
    summary: str
    kind: int
    reason: str


class Collector:
    """The behaviours of a session that collects tests, each once."""

    def __init__(self) -> None:
        self.found: dict[tuple[str, str], list[str]] = defaultdict(list)
        self.interfaces: dict[tuple[str, str], str] = {}

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        for item in items:
            mark = item.get_closest_marker("behaviour")
            if mark is None:
                raise SystemExit(f"{item.nodeid} has no mark `behaviour`")
            needed = item.get_closest_marker("cxx")
            if needed is not None:
                self.interfaces[mark.args] = needed.args[0]
            failure = item.get_closest_marker("xfail")
            self.found[mark.args].append(
                failure.kwargs["reason"] if failure is not None else "")

    def rows(self) -> list[Row]:
        rows = []
        for (area, summary), reasons in self.found.items():
            failed = [r for r in reasons if r]
            needed = self.interfaces.get((area, summary))
            if needed is not None:
                rows.append(Row(area, summary, BY_CXX,
                                f"passed with the C++ part: {needed}"))
                continue
            if not failed:
                rows.append(Row(area, summary, PASSED, "passed"))
                continue
            whose, _, reason = failed[0].partition(": ")
            kind = {"PyTorch": CXX, "ours": OURS}[whose]
            cases = "" if len(failed) == len(reasons) else (
                f" ({len(failed)} of {len(reasons)} cases)")
            rows.append(Row(area, summary, kind, f"failed{cases}: {reason}"))
        return rows


def collected() -> list[Row]:
    collector = Collector()
    with contextlib.redirect_stdout(io.StringIO()) as said:
        status = pytest.main(
            ["--collect-only", "-q", "-p", "no:cacheprovider", str(TESTS)],
            plugins=[collector])
    if status != pytest.ExitCode.OK:
        raise SystemExit(f"{TESTS} cannot be collected:\n{said.getvalue()}")
    rows = collector.rows()
    for line in (TESTS / "not_applicable.txt").read_text().splitlines():
        if not line.startswith("#"):
            area, summary, reason = line.split(" | ")
            rows.append(Row(area, summary, OTHER, f"not applicable: {reason}"))
    return rows


def tables(rows: list[Row]) -> str:
    areas = list(dict.fromkeys(row.area for row in rows))
    text = ["| Area | Passed | Passed with the C++ part | Failed: C++ only | "
            "Failed: ours | Not applicable |\n|---|---|---|---|---|---|\n"]
    for area in [*areas, ""]:
        counts = [sum(row.kind == kind and area in ("", row.area)
                      for row in rows) for kind in range(5)]
        text.append(f"| {area or 'all'} | "
                    + " | ".join(map(str, counts)) + " |\n")
    for area in areas:
        text.append(f"\n## {area}\n\n| Behaviour | |\n|---|---|\n")
        text += [f"| {row.summary} | {row.reason} |\n"
                 for row in rows if row.area == area]
    return "".join(text)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--check", action="store_true",
                        help="fail where the page is not up to date")
    args = parser.parse_args()
    before = PAGE.read_text()
    head, rest = before.split(BEGIN)
    page = head + BEGIN + tables(collected()) + END + rest.split(END)[1]
    if page == before:
        return 0
    if args.check:
        print(f"{PAGE.relative_to(ROOT)} is not what the tests say; run "
              "tools/device_behaviours.py", file=sys.stderr)
        return 1
    PAGE.write_text(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
