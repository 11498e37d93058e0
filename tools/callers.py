#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails on functions that nobody calls, on exported ones that no test names,
on names in comments that nothing has, and on what tools/circles.py finds.

A function of src that other files see must be used by another file of src,
hosts, cli, ops or tests, after preprocessing (names that macros and lists paste
together count). An exported function (opgraft_*) is for others: it must stand
in a test. A name in a comment or docstring (og_*, OG_*, opgraft_*, OPGRAFT_*,
what has parentheses behind it, a file of ours) must stand in code, or be a
file.
"""

from __future__ import annotations

import collections
import pathlib
import re
import sys

import circles
import prose

ROOT = circles.ROOT
CODE = ("src", "include", "hosts", "cli", "ops", "devices", "tests", "python",
        "examples", "cmake", "bench", "tools")
COMMENTED = ("src", "include", "hosts", "cli", "ops", "devices", "python")
C_FILES = (".c", ".h", ".inc", ".def")
COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''
                     r"|(//[^\n]*|/\*.*?\*/)", re.S)
NAME = re.compile(r"\b(?:og|opgraft|OG|OPGRAFT)_\w*\w\b\*?")
FILE = re.compile(r"\b[\w/]+\.(?:c|h|def|inc|py|cmake)\b")
CALL = re.compile(r"(?<![\w.])([a-z]\w*_\w+)\(\)")
OTHERS = {"dlpack.h", "script.py"}
PASTED = re.compile(r"(\w+_)##|##(_\w+)")


def texts(folders: tuple[str, ...], suffixes: tuple[str, ...]
          ) -> dict[pathlib.Path, str]:
    return {p: p.read_text(errors="replace") for f in folders
            for p in sorted((ROOT / f).rglob("*"))
            if p.suffix in suffixes and p.is_file()}


def words(text: str) -> set[str]:
    return set(re.findall(r"[A-Za-z_]\w*", text))


def code_of(text: str) -> str:
    return COMMENT.sub(lambda m: "" if m[1] else m[0], text)


def uncalled(units: dict[str, circles.Unit], outside: set[str],
             pasted: set[str]) -> list[str]:
    used = collections.Counter[str]()
    for unit in units.values():
        used.update(unit.uses)
    lines = []
    for place, unit in sorted(units.items()):
        for name in sorted(unit.defines):
            is_exported = name.startswith("opgraft_")
            if not place.startswith("src/") or is_exported or (
                    used[name] > (name in unit.uses) or name in outside
                    or name.startswith(tuple(pasted))):
                continue
            lines.append(f"{place}: {name} is used by no other file; make it "
                         "static or drop it")
    return lines


def untested(tests: set[str]) -> list[str]:
    header = "".join(code_of(t) for t in texts(("include",), (".h",)).values())
    names = sorted(set(re.findall(r"\bopgraft_\w+(?=\()", header)))
    return [f"{name}: exported, and no test names it" for name in names
            if name not in tests and f"{name}_fn" not in header]


def comments(path: pathlib.Path, text: str) -> list[tuple[int, str]]:
    """(line, text) of each comment, and of each docstring of Python."""
    if path.suffix == ".py":
        return [(text.count("\n", 0, p.begin) + 1, p.text)
                for p in prose.parts(path, text) if p.kind != "string"]
    return [(text.count("\n", 0, m.start()) + 1, m[1])
            for m in COMMENT.finditer(text) if m[1]]


def without_comments(path: pathlib.Path, text: str) -> str:
    if path.suffix in C_FILES:
        return code_of(text)
    if path.suffix != ".py":
        return text
    kept, last = [], 0
    for part in prose.parts(path, text):
        if part.kind != "string":
            kept.append(text[last:part.begin])
            last = part.end
    return "".join([*kept, text[last:]])


def unknown_names(known: set[str], pasted: set[str], files: set[str]
                  ) -> list[str]:
    lines = []
    for path, text in texts(COMMENTED, (*C_FILES, ".py")).items():
        for line, said in comments(path, text):
            where = f"{path.relative_to(ROOT)}:{line}"
            lines += [f"{where}: {name} stands in no code"
                      for name in [*NAME.findall(said), *CALL.findall(said)]
                      if not is_known(name, known, pasted)]
            lines += [f"{where}: there is no file {name}"
                      for name in FILE.findall(said)
                      if is_ours(name)
                      and pathlib.Path(name).name not in files]
    return lines


def is_ours(name: str) -> bool:
    folder = name.split("/")[0] if "/" in name else "src"
    return name not in OTHERS and not re.search(r"NAME|\b[A-Z]+\.", name) and (
        (ROOT / folder).is_dir() or (ROOT / "src" / folder).is_dir())


def is_known(name: str, known: set[str], pasted: set[str]) -> bool:
    if name in known or name.endswith("*") or name.endswith("_NAME"):
        return True
    return any(name.startswith(p) for p in pasted)


def main() -> int:
    code = texts(CODE, (*C_FILES, ".py", ".cpp", ".cmake", ".txt"))
    bare = {p: without_comments(p, t) for p, t in code.items()}
    known = set().union(*(words(t) for t in bare.values()))
    tests = set().union(*(words(t) for p, t in bare.items()
                          if p.is_relative_to(ROOT / "tests")))
    outside = tests | set().union(*(
        words(t) for p, t in bare.items() if p.is_relative_to(ROOT / "ops")))
    pasted = {m[1] for t in bare.values() for m in PASTED.finditer(t)
              if m[1] and m[1].startswith(("og_", "OG_", "opgraft_"))}
    files = {p.name for p in code} | {p.name for p in ROOT.iterdir()}
    # Functions in headers use what is declared there.
    headers = [code_of(t) for p, t in code.items() if p.suffix == ".h"]
    counts = collections.Counter(
        w for t in headers for w in re.findall(r"\bog_\w+", t))
    outside |= {w for w, count in counts.items() if count > 1}
    units = circles.read_units()
    problems = [*uncalled(units, outside, pasted),
                *untested(tests),
                *unknown_names(known, pasted, files)]
    for problem in problems:
        print(problem)
    print(f"callers: {len(problems)} problems")
    return int(circles.report(units) != 0 or bool(problems))


if __name__ == "__main__":
    sys.exit(main())
