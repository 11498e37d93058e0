# SPDX-License-Identifier: Apache-2.0
"""The Python tests on another version of PyTorch: `make test-versions`.

    python tools/torch_versions.py [--build build] [--python PYTHON]
        [--group NAME ...] VERSION

Makes build/torch-VERSION, an environment with that torch (gigabytes, where the
index has no build for CPUs), and runs the groups in it, a file at a time, with
the package of the build. What a file gave is kept there beside the hash of the
package and the file: an interrupted run goes on where it was, and a second one
runs what failed or changed. The row of docs/installing.md gets the counts, each
with its day. --python names an environment that is there already.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import json
import pathlib
import re
import subprocess
import sys
from typing import Iterable

import run_tests

ROOT = run_tests.ROOT
TESTS = ROOT / "tests"
GROUPS = {
    "core": sorted((TESTS / "python").glob("test_*.py")),
    "graph": [*sorted((TESTS / "python/graph").glob("test_*.py")),
              *sorted((TESTS / "python/rows").glob("test_*.py"))],
    "ops": sorted((TESTS / "python/ops").glob("test_*.py")),
    "AOTInductor": [TESTS / "conformance/test_aoti.py"],
    "hosts": [TESTS / "conformance/test_conformance.py",
              TESTS / "conformance/test_together.py",
              TESTS / "conformance/test_tvm_ffi.py"],
}
PACKAGES = ("requirements.txt", "rivals.txt")
# Of these: what no test of the groups imports.
TOOLS = ("torch", "scikit-build-core", "cmake", "ninja", "codespell", "ruff",
         "mypy", "clang-format", "pybind11", "openvino", "matplotlib")
DOCS = ROOT / "docs/installing.md"
BEGIN, END = "<!-- versions -->\n", "<!-- end versions -->"


def made(version: str, folder: pathlib.Path) -> pathlib.Path:
    """The environment's Python, with the program of the build beside it."""
    python = folder / "bin/python"
    if not (folder / "ready").exists():
        wanted = [line for name in PACKAGES for line in
                  (ROOT / "tools" / name).read_text().splitlines()
                  if line and line[0] != "#"
                  and re.split("[=;]", line)[0].strip() not in TOOLS]
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet",
                        f"torch=={version}", *wanted], check=True)
        (folder / "bin/opgraft").symlink_to(folder.parent / "bin/opgraft")
        (folder / "ready").touch()
    return python


def hash_of(paths: Iterable[pathlib.Path]) -> str:
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def run(name: str, path: pathlib.Path, python: pathlib.Path,
        build: pathlib.Path) -> dict[str, int]:
    env = {**run_tests.environment(), "OPGRAFT_BUILD": str(build),
           "PYTHONPATH": str(run_tests.package_links(build))}
    done = run_tests.pytest_run(
        f"{name} {path.name}", [path], ["-p", "no:cacheprovider",
                                        "--show-capture=no"],
        env, run_tests.Children(), str(python))
    if done.report is None:
        return {"passed": 0, "failed": 1, "skipped": 0}
    counts = dict.fromkeys(("tests", "failures", "errors", "skipped"), 0)
    for suite in done.report.iter("testsuite"):
        for key in counts:
            counts[key] += int(suite.get(key, 0))
    failed = counts["failures"] + counts["errors"]
    return {"passed": counts["tests"] - failed - counts["skipped"],
            "failed": failed, "skipped": counts["skipped"]}


def group_run(name: str, python: pathlib.Path, build: pathlib.Path,
              store: pathlib.Path, package: str) -> dict[str, int]:
    kept = json.loads(store.read_text()) if store.exists() else {}
    total = {"passed": 0, "failed": 0, "skipped": 0}
    for path in GROUPS[name]:
        key = str(path.relative_to(ROOT))
        state = package + hash_of([path])
        found = kept.get(key, {})
        if found.get("state") != state or found["failed"]:
            found = {"state": state, **run(name, path, python, build)}
            kept[key] = found
            store.write_text(json.dumps(kept, indent=1) + "\n")
        for what in total:
            total[what] += found[what]
    return total


def written(version: str, cells: dict[str, str]) -> None:
    """The version's row in the docs; other groups' cells stay."""
    begin, rest = DOCS.read_text().split(BEGIN)
    table, end = rest.split(END)
    head, kept = table.splitlines()[:2], table.splitlines()[2:]
    rows = {line.split("|")[1].strip(): [c.strip() for c in line.split("|")[2:-1]]
            for line in kept}
    old = rows.get(version, ["not tried"] * len(GROUPS))
    rows[version] = [cells.get(g, old[i]) for i, g in enumerate(GROUPS)]
    DOCS.write_text(begin + BEGIN + "\n".join(
        [*head, *(f"| {v} | {' | '.join(rows[v])} |" for v in sorted(rows))])
        + "\n" + END + end)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--python", type=pathlib.Path)
    parser.add_argument("--group", action="append", choices=list(GROUPS))
    parser.add_argument("version")
    args = parser.parse_args()
    build = args.build.resolve()
    folder = build / f"torch-{args.version}"
    folder.mkdir(parents=True, exist_ok=True)
    python = args.python or made(args.version, folder)
    found = subprocess.run(
        [python, "-c", "import torch; print(torch.__version__)"],
        capture_output=True, text=True, check=True).stdout.strip()
    if found.split("+")[0] != args.version:
        parser.error(f"{python} has torch {found}, expected {args.version}")
    package = hash_of([build / "python/opgraft/_C.abi3.so",
                       *sorted((ROOT / "python").rglob("*.py"))])
    cells, failed, passed = {}, 0, 0
    for name in args.group or GROUPS:
        total = group_run(name, python, build, folder / "results.json", package)
        cells[name] = (f"{total['passed']} + {total['failed']}, "
                       f"{datetime.date.today()}")
        print(f"torch {args.version}, {name}: {total['passed']} passed, "
              f"{total['failed']} failed, {total['skipped']} skipped",
              flush=True)
        written(args.version, cells)
        passed, failed = passed + total["passed"], failed + total["failed"]
    print(f"{passed} passed, {failed} failed")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
