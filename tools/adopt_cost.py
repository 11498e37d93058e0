#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts what adopting an opaque callable costs its user, beside custom_op.

Reads tests/python/adopt/opaque_set.py, where each callable is adopted and
written out with torch.library.custom_op (fake kernel, contiguity and, where
the adopted one has it, gradient); the tests run both. A line is one with code:
no blank one, no comment, no `def` of the wrapping function.

Exit status: 0 where the goals are met, 1 where they fall short.
"""

from __future__ import annotations

import argparse
import ast
import pathlib
import statistics
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
SOURCE = ROOT / "tests/python/adopt/opaque_set.py"
CALLABLES_MIN = 12


def lines_of(function: ast.FunctionDef, text: list[str]) -> int:
    begin = function.body[0].lineno
    for node in function.body[:1]:  # a decorated first statement
        begin = min([begin, *(d.lineno for d in getattr(
            node, "decorator_list", []))])
    end = function.end_lineno or begin
    return sum(bool(line.partition("#")[0].strip())
               for line in text[begin - 1:end])


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.parse_args()
    source = SOURCE.read_text()
    text = source.splitlines()
    counts: dict[str, dict[str, int]] = {}
    for node in ast.parse(source).body:
        kind, _, name = getattr(node, "name", "").partition("_")
        if isinstance(node, ast.FunctionDef) and kind in ("adopt", "custom"):
            counts.setdefault(name, {})[kind] = lines_of(node, text)
    print(f"{'callable':24} {'adopt':>6} {'custom_op':>10}")
    for name, row in counts.items():
        print(f"{name:24} {row['adopt']:6} {row['custom']:10}")
    ours = [r["adopt"] for r in counts.values()]
    theirs = [r["custom"] for r in counts.values()]
    print(f"{'in all':24} {sum(ours):6} {sum(theirs):10}")
    print(f"{'median':24} {statistics.median(ours):6g} "
          f"{statistics.median(theirs):10g}")
    goals = [
        (f"callables {len(counts)} >= {CALLABLES_MIN}",
         len(counts) >= CALLABLES_MIN),
        ("each shorter than with custom_op",
         all(a < b for a, b in zip(ours, theirs))),
    ]
    for what, is_met in goals:
        print(f"goal: {what}: {'met' if is_met else 'falls short'}")
    return 0 if all(is_met for _, is_met in goals) else 1


if __name__ == "__main__":
    sys.exit(main())
