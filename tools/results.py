#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Says which files of docs/results are stale.

A result names the files and folders that it measured and keeps their hash;
it is stale when they have changed since. What is slow is measured by hand
(`make bench`, `make sweep`, ...), so that a stale one is told, not failed.
"""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import platform
from typing import Any, Iterable

import charts

ROOT = pathlib.Path(__file__).resolve().parents[1]
RESULTS = ROOT / "docs" / "results"
LEFT_OUT = ("__pycache__", ".pyc", ".so")


def files_of(name: str) -> list[pathlib.Path]:
    """The files that an entry of `measured` stands for."""
    path = ROOT / name
    found = path.rglob("*") if path.is_dir() else [path]
    return sorted(p for p in found if p.is_file()
                  and not any(part.endswith(LEFT_OUT) for part in p.parts))


def hash_of(measured: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for name in sorted(measured):
        for file in files_of(name):
            digest.update(str(file.relative_to(ROOT)).encode() + b"\0")
            digest.update(file.read_bytes())
    return digest.hexdigest()


def processor() -> str:
    """What the machine says of its processor, with family and model: figures
    of two kinds do not compare."""
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    known = dict([part.strip() for part in line.split(":", 1)]
                 for line in lines if ":" in line)
    return (f"{known.get('model name', platform.machine())}, family "
            f"{known.get('cpu family', '?')} model {known.get('model', '?')}, "
            f"{os.cpu_count()} cores")


def write(name: str, measured: Iterable[pathlib.Path | str],
          found: dict[str, Any]) -> None:
    """Writes docs/results/NAME.json, and NAME.svg where it has goals;
    `measured` are files and folders."""
    names = sorted(str((ROOT / p).relative_to(ROOT)) for p in measured)
    result = {"measured": names, "hash": hash_of(names),
              "processor": processor(), **found}
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(result, indent=1) + "\n")
    if "goals" in result:
        (RESULTS / f"{name}.svg").write_text(charts.svg(name, result))


def main() -> int:
    kept = [path for path in sorted(RESULTS.glob("*.json"))
            if path.name != "nightly.json"]  # tools/stages.py's
    stale = []
    for path in kept:
        result = json.loads(path.read_text())
        if result.get("hash") != hash_of(result["measured"]):
            stale.append(path.stem)
    print(f"results: {len(stale)} of {len(kept)} stale"
          + (f": {', '.join(stale)}" if stale else ""))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
