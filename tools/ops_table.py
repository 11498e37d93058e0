#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints operator x type x instruction set x feature, each with its test.

    tools/ops_table.py [--isa scalar avx2 avx512 avx512_bf16]

Runs tests/python/ops once for each instruction set that the machine has and
collects what the tests say they cover. An operator of the library without a
cell for a type that its declaration takes falls short, and the table fails.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SETS = ["scalar", "avx2", "avx512", "avx512_bf16"]
TYPES = {"f32": "float32", "bf16": "bfloat16", "f16": "float16"}


def machine_sets() -> list[str]:
    flags = Path("/proc/cpuinfo").read_text()
    wanted = {"scalar": "", "avx2": " avx2 ", "avx512": " avx512bw ",
              "avx512_bf16": " avx512_bf16 "}
    return [s for s in SETS if wanted[s] in flags]


def collect(isa: str) -> list[dict[str, str]]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "covered.jsonl"
        run = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider",
             str(ROOT / "tests" / "python" / "ops"), "-k", "not compile"],
            env={**os.environ, "OPGRAFT_ISA": isa,
                 "OPGRAFT_OPS_COVERAGE": str(path)},
            capture_output=True, text=True, check=False)
        if run.returncode != 0:
            print(run.stdout[-2000:])
            raise SystemExit(f"tests fail with {isa}")
        return [json.loads(line) for line in path.read_text().splitlines()]


def takes() -> dict[str, set[str]]:
    """The types that each operator of the library is declared for."""
    from opgraft import ops

    found: dict[str, set[str]] = {}
    for module in ops._modules.values():
        for name, description in module._descriptions.items():
            if name.endswith("_backward"):
                continue
            sets = [t["allowed"] for t in description.tables["types"]]
            found[name] = {TYPES[t] for s in sets for t in s or ()
                           if t in TYPES and len(s) > 1}
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--isa", nargs="*", choices=SETS)
    options = parser.parse_args()
    sets = options.isa or machine_sets()
    cells: dict[tuple[str, str, str], dict[str, str]] = defaultdict(dict)
    for isa in sets:
        for e in collect(isa):
            cells[e["operator"], e["dtype"], e["feature"]][isa] = e["test"]
    print("| Operator | Type | Feature | " + " | ".join(sets) + " | Test |")
    print("|---" * (len(sets) + 4) + "|")
    short = 0
    for (operator, dtype, feature), row in sorted(cells.items()):
        marks = ["yes" if isa in row else "FALLS SHORT" for isa in sets]
        short += marks.count("FALLS SHORT")
        test = next(iter(row.values())).removeprefix("tests/python/ops/")
        print(f"| {operator} | {dtype} | {feature} | {' | '.join(marks)} | "
              f"{test} |")
    covered = {(o, d) for o, d, _ in cells}
    for operator, types in sorted(takes().items()):
        for dtype in sorted(types):
            if (operator, dtype) not in covered:
                print(f"| {operator} | {dtype} | FALLS SHORT |"
                      + " |" * (len(sets) + 1))
                short += 1
    print(f"\n{len(cells)} rows, {short} cells fall short")
    return short > 0


if __name__ == "__main__":
    sys.exit(main())
