#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails on circles between files, on two structs of one name, on a function
that two headers declare, and on headers that declare what many files define.

A unit is a C file and the header of the same stem. Unit a depends on unit b
where a uses a function or table that b defines, after preprocessing: names
that macros and .def lists paste together count too. A Python module depends on
those that it imports, wherever in the file it does so.
"""

from __future__ import annotations

import ast
import collections
import concurrent.futures
import multiprocessing
import os
import pathlib
import re
import subprocess
import sys
import sysconfig

ROOT = pathlib.Path(__file__).resolve().parents[1]
FOLDERS = ("src", "hosts", "cli")
PACKAGE = ROOT / "python/opgraft"
OWNERS_MAX = 4  # files that define what one header declares
MARKER = re.compile(r'^# \d+ "([^"]*)"((?: \d)*)')
TOKEN = re.compile(r'[A-Za-z_]\w*|"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|\S')
# Unit pairs whose circle is the shape of the data, with the reason.
RECURSIVE: dict[frozenset[str], str] = {}

Graph = dict[str, set[str]]


def flags() -> list[str]:
    folders = ["include", "src", ".", "cli", "hosts"]
    return [f"-I{ROOT / f}" for f in folders] + [
        f"-I{sysconfig.get_path('include')}", "-D_GNU_SOURCE",
        '-DOPGRAFT_VERSION="0"']


def set_flags(path: pathlib.Path) -> list[str]:
    """What cmake/isa.cmake's file says before it includes this one: of the
    set that the name ends in, or of the first."""
    names = re.findall(r"^OG_ISA\((\w+), ",
                       (ROOT / "src/base/isa.def").read_text(), re.M)
    own = max((n for n in names if path.stem.endswith(n)), key=len,
              default=names[0])
    return [f'-DOG_ISA_VEC="kernel/vec_{own}.h"',
            f"-DOG_ISA_TABLE(family)=family##_{own}"]


def preprocessed(path: pathlib.Path) -> list[tuple[list[str], str]]:
    """The file's text after preprocessing, in runs of lines, each with the
    files of ours that include it, the last being the one that it stands in."""
    more = set_flags(path) if path.suffix == ".inc" else []
    out = subprocess.run(
        ["cc", "-std=gnu11", "-E", "-x", "c", *flags(), *more, str(path)],
        capture_output=True, text=True, check=True).stdout
    stack: list[str] = []
    runs: list[tuple[list[str], list[str]]] = []
    for line in out.splitlines():
        marker = MARKER.match(line)
        if marker:
            if "1" in marker[2].split():
                stack = [*stack, marker[1]]
            elif "2" in marker[2].split():
                stack = stack[:-1]
            else:
                stack = [*stack[:-1], marker[1]]
            runs.append((stack, []))
        elif runs:
            runs[-1][1].append(line)
    return [([os.path.relpath(n, ROOT) for n in names], "\n".join(lines))
            for names, lines in runs
            if names and all(pathlib.Path(n).is_relative_to(ROOT)
                             for n in names)]


class Statements:
    """What stands at file scope: heads of statements, bodies taken out."""

    def __init__(self) -> None:
        self.depth = 0
        self.head: list[str] = []

    def read(self, text: str) -> list[tuple[list[str], str]]:
        """(tokens before the body or the end, the character that ends it)."""
        found = []
        for token in TOKEN.findall(text):
            if self.depth == 0 and token in "{;":
                found.append((self.head, token))
                if token == ";":
                    self.head = []
            elif self.depth == 0 and token != "}":
                self.head = [*self.head, token]
            if token == "{":
                self.depth += 1
            elif token == "}":
                self.depth -= 1
                if self.depth == 0 and "=" not in self.head and (
                        "(" in self.head):
                    self.head = []  # a function has ended
        return found


def without_attributes(head: list[str]) -> list[str]:
    kept, depth, skip = [], 0, False
    for token in head:
        if token == "__attribute__":
            skip, depth = True, 0
        elif skip:
            depth += (token == "(") - (token == ")")
            skip = depth > 0
        else:
            kept.append(token)
    return kept


def declared(head: list[str]) -> str:
    """The function or object that a head names, or ""."""
    head = without_attributes(head)
    if "=" in head:
        head = head[:head.index("=")]
    if not head or head[0] in ("typedef", "_Static_assert", "struct", "enum",
                               "union") and "(" not in head and (
                                   len(head) < 3):
        return ""
    if "typedef" in head or "_Static_assert" in head:
        return ""
    names = [t for t in head if re.match(r"[A-Za-z_]\w*$", t)
             and t not in ("struct", "enum", "union")]
    stop = next((head.index(c) for c in "([" if c in head), len(head))
    if len(names) < 2 or stop == 0 or head[stop - 1] not in names:
        return ""
    return head[stop - 1]


class Unit:
    def __init__(self) -> None:
        self.defines: set[str] = set()
        self.statics: set[str] = set()
        self.declares: dict[str, set[str]] = collections.defaultdict(set)
        self.uses: set[str] = set()
        self.types: dict[str, set[str]] = collections.defaultdict(set)

    def add(self, other: Unit) -> None:
        self.defines |= other.defines
        self.statics |= other.statics
        self.uses |= other.uses
        for own, more in ((self.declares, other.declares),
                          (self.types, other.types)):
            for name, found in more.items():
                own[name] |= found


def stem(path: str) -> str:
    return path.rsplit(".", 1)[0]


def read_unit(path: pathlib.Path) -> Unit:
    own = stem(str(path.relative_to(ROOT)))
    unit, inlined = Unit(), set[str]()
    statements: dict[str, Statements] = collections.defaultdict(Statements)
    for names, text in preprocessed(path):
        headers = [n for n in names if n.endswith(".h")]
        source = headers[-1] if headers else names[0]
        is_row = names[-1].endswith(".def")  # a list declares, for whoever
        for head, end in statements[source].read(text):
            note(unit, source, head, end, is_row)
        words = {t for t in TOKEN.findall(text) if t[0] not in "\"'"}
        if not headers:
            unit.uses |= words
        elif stem(source) == own and not is_row:
            inlined |= words
    unit.uses |= inlined - unit.declares[f"{own}.h"]
    unit.uses -= unit.statics
    return unit


def note(unit: Unit, source: str, head: list[str], end: str,
         is_row: bool) -> None:
    for kind in ("struct", "union", "enum"):
        if end == "{" and head[-2:-1] == [kind]:
            unit.types[head[-1]].add(source)
            return
    name = declared(head)
    is_definition = end == "{" or "=" in head
    if "static" in head:
        unit.statics.add(name)
    elif name and is_definition and not source.endswith(".h"):
        unit.defines.add(name)
    elif name and source.endswith(".h") and not (is_definition or is_row):
        unit.declares[source].add(name)


def sources() -> list[pathlib.Path]:
    """The C files, and what is compiled once for each instruction set."""
    return [p for folder in FOLDERS
            for p in sorted((ROOT / folder).rglob("*"))
            if p.suffix == ".c" or p.suffix == ".inc"
            and "OG_ISA_TABLE(" in p.read_text()]


def read_units() -> dict[str, Unit]:
    paths = sources()
    with concurrent.futures.ProcessPoolExecutor(
            mp_context=multiprocessing.get_context("fork")) as pool:
        found: dict[str, Unit] = collections.defaultdict(Unit)
        for path, unit in zip(paths, pool.map(read_unit, paths, chunksize=16)):
            found[stem(str(path.relative_to(ROOT)))].add(unit)
        return dict(found)


def dependencies(units: dict[str, Unit]) -> tuple[Graph, dict[str, str]]:
    owner = {name: unit for unit, found in units.items()
             for name in found.defines}
    def is_below(unit: str, other: str) -> bool:
        """src knows of no host and of no program: the name is another."""
        return not unit.startswith("src/") or other.startswith("src/")

    graph = {unit: {owner[name] for name in found.uses if name in owner
                    and is_below(unit, owner[name])} - {unit}
             for unit, found in units.items()}
    return graph, owner


def module_name(path: pathlib.Path) -> str:
    parts = ("opgraft", *path.relative_to(PACKAGE).with_suffix("").parts)
    return ".".join(p for p in parts if p != "__init__")


def imported(path: pathlib.Path, name: str, known: set[str]) -> set[str]:
    package = name.split(".")
    if path.name != "__init__.py":
        package.pop()
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {a.name for a in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package[:len(package) - node.level + 1]
                base = ".".join([*above, *([base] if base else [])])
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                found.add(inner if inner in known else base)
    return found & known - {name}


def python_graph() -> Graph:
    paths = {module_name(p): p for p in PACKAGE.rglob("*.py")}
    known = {*paths, "opgraft._C"}
    return {name: imported(path, name, known) for name, path in paths.items()}


def circles(graph: Graph) -> list[list[str]]:
    """Tarjan, "Depth-first search and linear graph algorithms", 1972."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in graph.get(node, ()):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            at = stack.index(node)
            if len(stack) - at > 1:
                found.append(sorted(stack[at:]))
            del stack[at:]

    sys.setrecursionlimit(10_000)
    for node in graph:
        if node not in index:
            visit(node)
    return found


def circle_lines(circle: list[str], graph: Graph,
                 units: dict[str, Unit]) -> list[str]:
    lines = [f"circle of {len(circle)} files:"]
    for unit in circle:
        for other in sorted(graph[unit] & set(circle)):
            names = ""
            if unit in units:
                both = units[unit].uses & units[other].defines
                names = f" ({', '.join(sorted(both)[:4])})"
            lines.append(f"  {unit} -> {other}{names}")
    return lines


def double_types(units: dict[str, Unit]) -> list[str]:
    places: dict[str, set[str]] = collections.defaultdict(set)
    for unit in units.values():
        for name, files in unit.types.items():
            places[name] |= files
    shared = {name: {f for f in files if f.endswith(".h")}
              for name, files in places.items()}
    return [f"{name}: two types of one name, in {', '.join(sorted(files))}"
            for name, files in sorted(shared.items()) if len(files) > 1]


def double_declarations(units: dict[str, Unit],
                        owner: dict[str, str]) -> list[str]:
    places: dict[str, set[str]] = collections.defaultdict(set)
    for unit in units.values():
        for header, names in unit.declares.items():
            for name in names & owner.keys():
                places[name].add(header)
    return [f"{name}: declared in {' and '.join(sorted(headers))}; expected one "
            "header" for name, headers in sorted(places.items())
            if len(headers) > 1]


def wide_headers(units: dict[str, Unit], owner: dict[str, str]) -> list[str]:
    declared_in: dict[str, set[str]] = collections.defaultdict(set)
    for unit in units.values():
        for header, names in unit.declares.items():
            declared_in[header] |= names
    lines = []
    for header, names in sorted(declared_in.items()):
        owners = {owner[n] for n in names if n in owner}
        if len(owners) > OWNERS_MAX and not header.startswith("include/"):
            lines.append(f"{header}: declares what {len(owners)} files define")
    return lines


def report(units: dict[str, Unit]) -> int:
    """Prints the problems; whether there are any."""
    graph, owner = dependencies(units)
    python = python_graph()
    problems = []
    for one in (graph, python):
        for circle in circles(one):
            if frozenset(circle) not in RECURSIVE:
                problems.append(circle_lines(circle, one, units))
    print(f"circles: {len(graph)} C units and {len(python)} Python modules, "
          f"{len(problems)} circles")
    double = double_types(units)
    twice = double_declarations(units, owner)
    wide = wide_headers(units, owner)
    for line in [*(x for p in problems for x in p), *double, *twice, *wide]:
        print(line)
    print(f"circles: {len(double)} double types, {len(twice)} double "
          f"declarations, {len(wide)} wide headers")
    return 1 if problems or double or twice or wide else 0


if __name__ == "__main__":
    sys.exit(report(read_units()))
