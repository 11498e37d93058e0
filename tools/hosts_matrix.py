# SPDX-License-Identifier: Apache-2.0
"""Hosts at several versions, each in an environment of its own.

    python tools/hosts_matrix.py [--build build] [NAME ...]

Makes .venv-matrix-NAME for each row, and runs in it the calls that every host
makes (tests/conformance/test_conformance.py), one wheel beside that host alone
(test_wheel.py), and the host's own tests where those run without PyTorch. A row
whose packages cannot be installed is counted as skipped, with the installer's
last line. The table of docs/hosts.md gets a row for each that ran.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import re
import subprocess
import sys
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parents[1]
CONFORMANCE = ROOT / "tests/conformance"
INSTALL_S, RUN_S = 1200, 1200


class Row(NamedTuple):
    name: str
    host: str
    packages: tuple[str, ...]
    with_main: bool = False  # over the packages of the main environment


JAX = ("numpy", "ml_dtypes", "flatbuffers", "pytest", "pytest-timeout")
ROWS = [
    Row("jax-0.8", "jax", ("jax==0.8.1", "jaxlib==0.8.1", *JAX)),
    Row("jax-0.10", "jax", ("jax==0.10.2", "jaxlib==0.10.2", *JAX)),
    Row("jax-newest", "jax", ("jax", "jaxlib", *JAX)),
    Row("onnxruntime-1.16", "onnxruntime",
        ("onnxruntime==1.16.3", "onnx==1.17.0", "numpy<2", "ml_dtypes<0.6",
         "pytest")),
    Row("onnxruntime-newest", "onnxruntime",
        ("onnxruntime", "onnx", "numpy", "ml_dtypes", "pytest")),
    Row("tvm_ffi-0.1.0", "tvm_ffi", ("apache-tvm-ffi==0.1.0",), True),
    Row("tvm_ffi-newest", "tvm_ffi", ("apache-tvm-ffi",), True),
    Row("tensorflow-2.21", "tensorflow", ("-r", "requirements/tensorflow.txt")),
]


def made(row: Row) -> tuple[pathlib.Path | None, str]:
    """The row's Python, or None and why there is none."""
    folder = ROOT / f".venv-matrix-{row.name}"
    python = folder / "bin/python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    upgrade = ["--upgrade"] if row.name.endswith("newest") else []
    no_deps = ["--no-deps"] if row.with_main else []  # the main ones serve
    done = subprocess.run(
        [python, "-m", "pip", "install", "--quiet", *upgrade, *no_deps,
         *row.packages], cwd=ROOT, capture_output=True, text=True,
        timeout=INSTALL_S)
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if "ERROR" in line]
        return None, (lines or ["pip failed"])[-1]
    if row.with_main:
        site = next(folder.glob("lib/python*/site-packages"))
        (site / "zz_main.pth").write_text("\n".join(
            p for p in sys.path if p.endswith("site-packages")) + "\n")
    return python, ""


def versions(python: pathlib.Path, row: Row) -> str:
    name = {"tvm_ffi": "apache-tvm-ffi", "tensorflow": "tensorflow-cpu",
            "jax": "jaxlib"}.get(row.host, row.host)
    return subprocess.run(
        [python, "-c", "import importlib.metadata as m, sys; "
         "print(m.version(sys.argv[1]))", name], capture_output=True,
        text=True, check=True).stdout.strip()


COUNTS = re.compile(r"^(?:listed|library), \w+: (\d+) passed, (\d+) failed, "
                    r"(\d+) missing$")
DOCS = ROOT / "docs/hosts.md"
BEGIN, END = "<!-- matrix -->\n", "<!-- end matrix -->"


def written(row: Row, version: str, lines: list[str], is_right: bool) -> None:
    """The row in the docs, in place of the one of its name."""
    found = [match.groups() for line in lines if (match := COUNTS.match(line))]
    right, wrong, missing = (sum(int(one[i]) for one in found)
                             for i in range(3))
    begin, rest = DOCS.read_text().split(BEGIN)
    table, end = rest.split(END)
    head, kept = table.splitlines()[:2], table.splitlines()[2:]
    rows = {line.split("|")[1].strip(): line for line in kept}
    rows[row.name] = (f"| {row.name} | {version} | {right} | {wrong} "
                      f"| {missing} | {'passed' if is_right else 'failed'} |")
    order = [known.name for known in ROWS if known.name in rows]
    DOCS.write_text(begin + BEGIN + "\n".join(
        [*head, *(rows[name] for name in order)]) + "\n" + END + end)


def passed(row: Row, python: pathlib.Path, build: pathlib.Path,
           lines: list[str]) -> bool:
    """Adds the lines that the tests print to `lines`."""
    env = {**os.environ, "OPGRAFT_BUILD": str(build),
           f"OPGRAFT_PYTHON_{row.host.upper()}": str(python)}
    runs = [([sys.executable], ["test_conformance.py", "-k",
                                f"results and {row.host}"], env)]
    if row.host in ("jax", "onnxruntime"):
        runs.append(([sys.executable], ["test_wheel.py", "-k", row.host], env))
    if (ROOT / f"requirements/{row.host}.txt").exists():
        runs.append(([str(python)], [f"test_{row.host}.py"],
                     {**env, "PYTHONPATH": str(ROOT / "python")}))
    is_right = True
    for program, tests, own in runs:
        done = subprocess.run(
            [*program, "-m", "pytest", "-q", "-s", *tests], cwd=CONFORMANCE,
            env=own, capture_output=True, text=True, timeout=RUN_S)
        lines += done.stdout.splitlines()
        for line in done.stdout.splitlines():
            if " passed" in line or line.startswith(("FAILED", "ERROR")):
                print("   ", line)
        is_right &= done.returncode == 0
    return is_right


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("names", nargs="*", help="rows; all where none is given")
    args = parser.parse_args()
    rows = [row for row in ROWS if not args.names or row.name in args.names]
    if len(rows) < len(args.names):
        parser.error("a row has no such name; those are "
                     + ", ".join(row.name for row in ROWS))
    count = {"passed": 0, "failed": 0, "skipped": 0}
    for row in rows:
        python, reason = made(row)
        if python is None:
            count["skipped"] += 1
            print(f"{row.name}: skipped: {reason}", flush=True)
            continue
        version = versions(python, row)
        print(f"{row.name}: {row.host} {version}", flush=True)
        lines: list[str] = []
        is_right = passed(row, python, args.build.resolve(), lines)
        written(row, version, lines, is_right)
        verdict = "passed" if is_right else "failed"
        count[verdict] += 1
        print(f"{row.name}: {verdict}", flush=True)
    print(", ".join(f"{n} {what}" for what, n in count.items()))
    return int(count["failed"] > 0)


if __name__ == "__main__":
    sys.exit(main())
