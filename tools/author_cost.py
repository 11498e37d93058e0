#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts what an operator costs its author: files, declaration lines, Python;
and a device.

Reads every og_op entry of examples/, ops/ and tests/ops. Of each operator that
users call (not the backward ones, which stand in their own column):

    files   that declare it: the C file, and whatever else of the project names
            it to register, fake, differentiate or batch it
    lines   of its og_op entry that carry a field, wrapped strings included;
            kernels are code and not counted
    python  lines of the package or a host that register something for it

Of each device in devices/: lines of its OG_DEVICE_DRIVER, which are its
declaration; lines of C behind them; and lines of the package, of a host or of
C++ that name it.

Exit status: 0 where the goals are met, 1 where they fall short.
"""

from __future__ import annotations

import argparse
import pathlib
import re
import statistics
import sys
from dataclasses import dataclass, field

ROOT = pathlib.Path(__file__).resolve().parents[1]
SOURCES = ("examples/*/*.c", "ops/*.c", "tests/ops/*.c")
# What may hold per-operator code: everything but C operator files, tests of
# them, documents and demos, which call operators and do not define them.
ELSEWHERE = ("python/opgraft/**/*.py", "hosts/**/*.[ch]", "src/**/*.[ch]",
             "cmake/*.cmake", "examples/*/*.py")
LINES_MEDIAN = 8
OPERATORS_MIN = 20

DRIVER = re.compile(r"^OG_DEVICE_DRIVER\((.*?)\)\n", re.M | re.S)

TOKEN = re.compile(
    r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|[{}]|\n|[^\n"{}/]+|/', re.S)
TABLE = re.compile(r"^static const og_op \w+\[\] = ", re.M)
STRINGS = re.compile(r'"((?:\\.|[^"\\])*)"')
SPECIAL = {
    "host lengths": lambda s, _: "int[] lengths" in s,
    "two mutated": lambda s, _: s.count("!)") >= 2 and "b!)" in s,
    "optional input": lambda s, _: "Tensor?" in s,
    "list input": lambda s, _: re.search(
        r"Tensor\??(\(a!\))?\[\] ", s.partition("->")[0]) is not None,
    "data-dependent": lambda _, shape: "<=" in shape.partition("->")[2],
    "returns its argument": lambda s, _: "!)" in s.partition("->")[2],
}


@dataclass
class Operator:
    name: str
    module: str
    path: pathlib.Path
    lines: int
    schema: str
    shape: str
    backward: str  # the operator that the gradient map names
    files: int = 1
    python: int = 0
    gradient_lines: int = 0
    kinds: list[str] = field(default_factory=list)


def entries(text: str) -> list[str]:
    """The text of every og_op entry, without comments and outer braces."""
    found: list[str] = []
    for table in TABLE.finditer(text):
        depth, entry = 0, ""
        for token in TOKEN.findall(text, table.end()):
            depth += (token == "{") - (token == "}")
            if token == "{" and depth == 2:
                entry = ""
            elif token == "}" and depth == 1:
                found.append(entry)
            elif depth >= 2 and not token.startswith(("//", "/*")):
                entry += token
            if depth == 0:
                break
    return found


def field_text(entry: str, name: str) -> str:
    """A field's string, its literals joined; macros between them are left out."""
    match = re.search(rf"\.{name}\s*=(.*?)(?=\n\s*\.[a-z]+\s*=|\n\s*RUN\(|\Z)",
                      entry, re.S)
    return "".join(STRINGS.findall(match.group(1))) if match else ""


def read(path: pathlib.Path) -> list[Operator]:
    text = path.read_text()
    module = re.search(r"^OG_MODULE\((\w+),", text, re.M)
    found = []
    for entry in entries(text):
        schema = field_text(entry, "schema")
        backward = field_text(entry, "backward")
        found.append(Operator(
            name=schema.partition("(")[0], module=module.group(1) if module else "",
            path=path, lines=sum(bool(line.strip()) for line in entry.split("\n")),
            schema=schema, shape=field_text(entry, "shape"),
            backward=backward.partition("(")[0] if "(" in backward else "",
        ))
    return found


def add_gradients(operators: list[Operator]) -> None:
    """Lines of the operators that a gradient map leads to, of any order."""
    by_name = {(o.path, o.name): o for o in operators}
    for operator in operators:
        seen, at = {operator.name}, operator
        while at.backward and at.backward not in seen:
            seen.add(at.backward)
            at = by_name[operator.path, at.backward]
            operator.gradient_lines += at.lines


def add_elsewhere(operators: list[Operator]) -> None:
    """What the rest of the project says of one operator by name."""
    texts = {p: p.read_text() for glob in ELSEWHERE for p in ROOT.glob(glob)}
    registers = re.compile(
        r"register_|\.impl\(|\.define\(|custom_op|def_static|autograd\.Function")
    for operator in operators:
        base = re.escape(operator.name.partition(".")[0])
        word = re.compile(rf"\b{re.escape(operator.module)}(?:::|\.){base}\b|"
                          rf'"{base}(?:\.\w+)?\(')
        for path, text in texts.items():
            lines = [line for line in text.split("\n")
                     if word.search(line) and registers.search(line)]
            operator.files += bool(lines)
            operator.python += len(lines) if path.suffix == ".py" else 0


def is_backward(operator: Operator) -> bool:
    return operator.name.endswith("_backward")


def row(operator: Operator) -> str:
    where = operator.path.relative_to(ROOT).as_posix()
    kinds = ", ".join(operator.kinds)
    return (f"{operator.name:28} {where:40} {operator.files:5} "
            f"{operator.lines:5} {operator.gradient_lines:8} "
            f"{operator.python:6}  {kinds}".rstrip())


def goals(shown: list[Operator]) -> list[tuple[str, bool]]:
    files = max(o.files for o in shown)
    python = max(o.python for o in shown)
    lines = statistics.median(o.lines for o in shown)
    missing = [k for k in SPECIAL if not any(k in o.kinds for o in shown)]
    return [
        (f"operators {len(shown)} >= {OPERATORS_MIN}", len(shown) >= OPERATORS_MIN),
        (f"of every kind: {', '.join(SPECIAL)}"
         + (f"; without {', '.join(missing)}" if missing else ""), not missing),
        (f"files per operator {files} <= 1", files <= 1),
        (f"declaration lines, median {lines:g} <= {LINES_MEDIAN}",
         lines <= LINES_MEDIAN),
        (f"per-operator Python lines {python} <= 0", python <= 0),
    ]


def device_row(path: pathlib.Path, table: str) -> tuple[str, int]:
    """The row of a driver, and how many lines elsewhere name its device,
    examples in documentation apart."""
    name = re.search(r'\.name = "(\w+)"', table)
    assert name is not None, path
    own = f"{name[1]}_*.[ch]" if path.parent.name == "devices" else "*.[ch]"
    code = sum(len(source.read_text().splitlines())
               for source in path.parent.glob(own))
    word = re.compile(rf"\b{path.stem}\b|\b{name[1]}_\w+\(")
    elsewhere = sum(
        bool(word.search(line)) and ">>> " not in line
        for glob in ("python/opgraft/**/*.py", "hosts/**/*.[ch]",
                     "hosts/**/*.cpp", "src/**/*.[ch]")
        for other in ROOT.glob(glob)
        for line in other.read_text().splitlines())
    return (f"{name[1]:28} {path.relative_to(ROOT).as_posix():40} "
            f"{len(table.strip().splitlines()):5} lines of declaration, "
            f"{code} of C, {elsewhere} elsewhere", elsewhere)


def devices() -> bool:
    """Prints a row of each driver whose device PyTorch does not have itself;
    whether nothing elsewhere is of one of them."""
    rows = [device_row(path, table[1])
            for path in sorted(ROOT.glob("devices/**/*.c"))
            for table in DRIVER.finditer(path.read_text())
            if "OG_CUDA" not in table[1]]
    print("\n".join(text for text, _ in rows))
    return bool(rows) and not any(elsewhere for _, elsewhere in rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.parse_args()
    paths = sorted(p for glob in SOURCES for p in ROOT.glob(glob))
    operators = [o for path in paths for o in read(path)]
    add_gradients(operators)
    add_elsewhere(operators)
    shown = [o for o in operators if not is_backward(o)]
    for operator in shown:
        operator.kinds = [kind for kind, test in SPECIAL.items()
                          if test(operator.schema, operator.shape)]
    print(f"{'operator':28} {'file':40} {'files':>5} {'lines':>5} "
          f"{'gradient':>8} {'python':>6}")
    for operator in shown:
        print(row(operator))
    with_gradient = [o.lines + o.gradient_lines for o in shown]
    print(f"{'median':28} {len(shown)} operators, {len(operators)} entries "
          f"{statistics.median(o.lines for o in shown):23g} lines, with the "
          f"gradients' {statistics.median(with_gradient):g}")
    results = [*goals(shown), ("no Python, C++ or engine code of one device",
                               devices())]
    for text, is_met in results:
        print(f"goal: {text}: {'met' if is_met else 'falls short'}")
    return 0 if all(is_met for _, is_met in results) else 1


if __name__ == "__main__":
    sys.exit(main())
