#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints operator x type x instruction set x feature, each with its test.

    tools/ops_table.py [--isa scalar avx2 avx512 avx512_bf16 amx_bf16] [--out FILE]
    tools/ops_table.py --check docs/operators/coverage.md

Runs tests/python/ops once for each instruction set that the machine has and
collects what the tests say they cover. A feature that is covered for one type
or set of an operator has to be for all that it takes: an empty cell falls
short, and the table fails.

--check runs no test: the page has to name the operators and types that are
declared now, only tests that exist, and nothing that falls short.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from run_tests import all_sets, machine_sets

ROOT = Path(__file__).resolve().parents[1]
ANY = "any type"
TYPES = {"f32": "float32", "bf16": "bfloat16", "f16": "float16"}


def collect(isa: str) -> list[dict[str, str]]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "covered.jsonl"
        run = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider",
             str(ROOT / "tests" / "python" / "ops"), "-k",
             "not compile and not example"],  # slow, and about no cell
            env={**os.environ, "OPGRAFT_ISA": isa,
                 "OPGRAFT_OPS_COVERAGE": str(path)},
            capture_output=True, text=True, check=False)
        if run.returncode != 0:
            print(run.stdout[-2000:])
            raise SystemExit(f"tests fail with {isa}")
        return [json.loads(line) for line in path.read_text().splitlines()]


def takes() -> dict[str, list[str]]:
    """The types that each operator of the library is declared for."""
    from opgraft import ops

    found: dict[str, list[str]] = {}
    for module in ops._modules.values():
        for name, description in module._descriptions.items():
            if (name.endswith("_backward")
                    or description.tables["is_derived"]):
                continue
            sets = [t["allowed"] or () for t in description.tables["types"]]
            chosen = {TYPES[t] for s in sets for t in s
                      if t in TYPES and len(s) > 1}
            found[name] = [t for t in TYPES.values() if t in chosen] or [ANY]
    return found


def cell(row: dict[str, str] | None, sets: list[str]) -> tuple[str, int]:
    """What stands in a cell, and how many sets it lacks."""
    missing = [isa for isa in sets if isa not in (row or {})]
    if row is None or missing:
        return f"FALLS SHORT: {', '.join(missing)}", len(missing)
    return next(iter(row.values())).split("/")[-1], 0


def tables(cells: dict[tuple[str, str, str], dict[str, str]],
           sets: list[str]) -> tuple[list[str], int]:
    """The lines of the page, and how many cells fall short."""
    lines = ["# What the tests of the operator library cover", "",
             "Written by tools/ops_table.py: for each operator, feature and "
             "type the test that covers it, run with each of these "
             f"instruction sets: {', '.join(sets)}.", ""]
    short = 0
    for operator, types in sorted(takes().items()):
        features = sorted({f for o, _, f in cells if o == operator})
        lines += [f"## {operator}", ""]
        if not features:
            lines += ["FALLS SHORT: no test", ""]
            short += 1
            continue
        lines += ["| Feature | " + " | ".join(types) + " |",
                  "|---" * (len(types) + 1) + "|"]
        for feature in features:
            plain = cells.get((operator, ANY, feature))
            row = []
            for dtype in types:
                text, lacking = cell(
                    plain or cells.get((operator, dtype, feature)), sets)
                row.append(text)
                short += lacking
            lines.append(f"| {feature} | " + " | ".join(row) + " |")
        lines.append("")
    return lines, short


def check(page: Path) -> int:
    """How many lines of the page are not true of this tree; says which."""
    text = page.read_text()
    tests = {name for path in (ROOT / "tests/python/ops").glob("test_*.py")
             for name in re.findall(r"^def (test_\w+)", path.read_text(),
                                    flags=re.M)}
    found = {}
    wrong = []
    for part in text.split("\n## ")[1:]:
        operator, *lines = part.splitlines()
        rows = [[c.strip() for c in line.split("|")[1:-1]]
                for line in lines if line.startswith("| ")]
        found[operator] = rows[0][1:] if rows else []
        for feature, *cells in rows[1:]:
            wrong += [f"{operator}, {feature}: {c}" for c in cells
                      if c.split("::")[-1] not in tests]
    for operator, types in takes().items():
        if found.get(operator) != types:
            wrong.append(f"{operator}: the page has {found.get(operator)}, "
                         f"but {types} are declared")
    wrong += [f"{o}: not declared" for o in found.keys() - takes().keys()]
    for line in wrong:
        print(f"{page.name}: {line}")
    if wrong:
        print(f"write it anew: tools/ops_table.py --out {page}")
    return len(wrong)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--isa", nargs="*", choices=all_sets())
    parser.add_argument("--out", type=Path, help="also write the page here")
    parser.add_argument("--check", type=Path, metavar="FILE",
                        help="only say whether this page is true of the tree")
    options = parser.parse_args()
    if options.check is not None:
        return check(options.check) > 0
    sets = options.isa or machine_sets()
    cells: dict[tuple[str, str, str], dict[str, str]] = defaultdict(dict)
    with ThreadPoolExecutor(max_workers=2) as pool:
        found = list(pool.map(collect, sets))
    for isa, entries in zip(sets, found, strict=True):
        for e in entries:
            dtype = ANY if e["dtype"] in ("None", "bool") else e["dtype"]
            cells[e["operator"], dtype, e["feature"]][isa] = e["test"]
    lines, short = tables(cells, sets)
    print("\n".join(lines))
    print(f"{len(cells)} rows, {short} cells fall short")
    if options.out is not None:
        options.out.write_text("\n".join(lines).rstrip() + "\n")
    return short > 0


if __name__ == "__main__":
    sys.exit(main())
