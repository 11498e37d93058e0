#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes docs/errors.md: for each error code a program that causes it, what it
prints, and the repair.

    tools/errors.py [--check] [--lib FOLDER] [CODE ...]

tests/errors/CODE.c is the program: its lines under `#ifdef REPAIRED` are the
repair. Both forms are compiled and run with libopgraft.so of FOLDER; the broken
one has to print the code, the other one OG_OK. With --check nothing is written,
and a page that differs fails.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

import findings

ROOT = pathlib.Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "tests" / "errors"
HEADER = ROOT / "include" / "opgraft" / "op.h"
PAGE = ROOT / "docs" / "errors.md"
FLAGS = ("-std=c11", "-Wall", "-Wextra", "-Werror", "-O0")

HEAD = """\
# Error codes

What a C function returns beside its error's text, each code with a program that causes it, what the program prints, and the repair; `tools/errors.py` writes this page from `tests/errors` and `include/opgraft/op.h`. The programs share [example.h](../tests/errors/example.h). Python raises `MemoryError` for OG_MEMORY, `OSError` for OG_IO, `NotImplementedError` for OG_UNSUPPORTED and `RuntimeError` for the others, with the same text. Codes are never renumbered.
"""


def codes() -> dict[str, tuple[int, str]]:
    """Name: number and text, in the order of the header, without OG_OK."""
    rows = re.findall(r'X\((OG_\w+), (\d+), "([^"]*)"\)', HEADER.read_text())
    return {name: (int(number), text) for name, number, text in rows
            if name != "OG_OK"}


def example(code: str) -> str:
    return (EXAMPLES / f"{code}.c").read_text(encoding="utf-8")


def said(lib: pathlib.Path, code: str, is_repaired: bool) -> str:
    """What the program prints. The instruction set is named in some texts."""
    with tempfile.TemporaryDirectory(prefix="errors-") as name:
        folder = pathlib.Path(name)
        (folder / "a.c").write_text(findings.form(example(code), is_repaired))
        subprocess.run(
            [os.environ.get("CC", "cc"), *FLAGS, "-I", ROOT / "include", "-I",
             EXAMPLES, "a.c", "-o", "a", lib / "libopgraft.so",
             f"-Wl,-rpath,{lib}", "-lm"], cwd=folder, check=True)
        done = subprocess.run(
            [folder / "a"], cwd=folder, capture_output=True, text=True,
            check=False, env={**os.environ, "OPGRAFT_ISA": "scalar"})
    return done.stdout


def trouble_of(code: str, broken: str, repaired: str) -> str:
    """What is not as it should be; empty where all is."""
    if not broken.startswith(f"{code} ("):
        return f"the program does not end with {code}, it prints: {broken}"
    if repaired != "OG_OK\n":
        return f"the repaired program prints: {repaired}"
    return ""


def section(code: str, output: str) -> str:
    source = example(code)
    number, text = codes()[code]
    return (f"\n## {code}\n\nCode {number}, \"{text}\". "
            f"{findings.head_of(source)} "
            f"([{code}.c](../tests/errors/{code}.c))\n\n"
            f"```\n{output.rstrip()}\n```\n\n"
            f"```diff\n{findings.repair(source)}\n```\n")


def make(lib: pathlib.Path, code: str) -> tuple[str, str]:
    """The code's section, and what is wrong with its program."""
    broken, repaired = (said(lib, code, r) for r in (False, True))
    return section(code, broken), trouble_of(code, broken, repaired)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("codes", nargs="*", metavar="CODE")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--lib", type=pathlib.Path,
                        default=ROOT / "build" / "lib")
    options = parser.parse_args()
    if not (options.lib / "libopgraft.so").exists():
        parser.error(f"{options.lib} has no libopgraft.so; run make build")
    if shutil.which(os.environ.get("CC", "cc")) is None:
        parser.error("there is no C compiler; set CC")
    chosen = options.codes or list(codes())
    lib = options.lib.resolve()
    with ThreadPoolExecutor(options.jobs) as pool:
        made = dict(zip(chosen, pool.map(lambda c: make(lib, c), chosen)))
    now = findings.sections_of(PAGE.read_text()) if PAGE.exists() else {}
    failed = False
    for code, (text, trouble) in made.items():
        if trouble:
            print(f"{code}: {trouble}")
        if options.check and now.get(code) != text:
            trouble = "differs"
            print(f"docs/errors.md: {code} differs; run tools/errors.py")
        failed |= bool(trouble)
    if not options.check:
        every = {**now, **{code: text for code, (text, _) in made.items()}}
        PAGE.write_text(HEAD + "".join(every[c] for c in codes()
                                       if c in every))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
