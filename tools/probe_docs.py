#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the table of probes in docs/check.md from src/check/probe/probes.def.

    tools/probe_docs.py [--check]

With --check nothing is written, and a table that differs fails.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TABLE = ROOT / "src" / "check" / "probe" / "probes.def"
PAGE = ROOT / "docs" / "check.md"
HEAD = "| Probe | Tries |\n|---|---|\n"
STRINGS = r'(?:"(?:[^"\\]|\\.)*"\s*)+'
ROW = re.compile(
    rf"OG_PROBE\((\w+),\s*\d+,\s*[\w |]+,\s*{STRINGS},\s*({STRINGS})\)")


def probes() -> list[tuple[str, str]]:
    """(name, what it tries), in order."""
    text = TABLE.read_text()
    found = [(name, str(ast.literal_eval(f"({strings})")))
             for name, strings in ROW.findall(text)]
    rows = re.findall(r"^OG_PROBE\(", text, flags=re.M)
    if len(found) != len(rows):
        sys.exit(f"{TABLE}: {len(rows)} rows, of which {len(found)} are of "
                 "the form OG_PROBE(name, calls, flags, \"...\", \"...\")")
    return found


def page(now: str) -> str:
    before, head, rest = now.partition(HEAD)
    if not head:
        sys.exit(f"{PAGE}: the table's head is missing: {HEAD!r}")
    after = rest[rest.index("\n\n") + 1:]
    rows = "".join(f"| {name} | {doc} |\n" for name, doc in probes())
    return before + head + rows + after


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    now = PAGE.read_text()
    wanted = page(now)
    if options.check:
        if now != wanted:
            print("docs/check.md: the table of probes differs from probes.def; "
                  "run tools/probe_docs.py")
        return int(now != wanted)
    PAGE.write_text(wanted)
    return 0


if __name__ == "__main__":
    sys.exit(main())
