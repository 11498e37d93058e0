#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the sizes of functions and files, and fails beyond the hard limits.

A C function whose body is one dispatch switch says `// dispatch` in its first
line and has no limit.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
FUNCTION_MAX = 80
FUNCTION_P95 = 32  # of each part and of all
FILE_MAX = 900
FILE_AIM = 500
NESTING_MAX = 3
TOKEN = re.compile(
    r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
# A heading (`// --- Words ---`) that clang-format broke in two: it was too long.
BROKEN_HEADING = re.compile(r"^[ \t]*// -{5,}")


@dataclasses.dataclass
class Function:
    path: str
    line: int
    name: str
    lines: int
    nesting: int
    is_dispatch: bool


def blank(match: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", match[0])


def functions_c(path: str, text: str) -> list[Function]:
    """Bodies at file scope: a brace that follows a parameter list."""
    bare = TOKEN.sub(blank, text)
    bare = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", blank, bare, flags=re.M)
    raw = text.splitlines()
    found = []
    depth = 0
    head = ""  # what stands before the brace, since the last ; or }
    start = deepest = 0
    is_body = False
    line = 1
    for char in bare:
        line += char == "\n"
        if char == "{":
            depth += 1
            if depth == 1:
                is_body = bool(re.search(r"\)\s*$", head)) and "=" not in head
                if 'extern' in head and not is_body:
                    depth = 0  # extern "C"
                name = re.search(r"(\w+)\s*\(", head)
                start, deepest = line - head.lstrip().count("\n"), 1
                label = name[1] if name else "?"
                head = ""
            deepest = max(deepest, depth)
        elif char == "}":
            depth = max(depth - 1, 0)
            if depth == 0:
                if is_body:
                    first = "".join(raw[start - 1:start + 6])
                    found.append(Function(path, start, label, line - start + 1,
                                          deepest - 1, "// dispatch" in first))
                head, is_body = "", False
        elif depth == 0:
            head = "" if char == ";" else head + char
    return found


def depth_python(node: ast.AST) -> int:
    blocks = (ast.If, ast.For, ast.While, ast.With, ast.Try)
    deepest = 0
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.ClassDef)):
            continue
        inner = depth_python(child)
        is_elif = (isinstance(node, ast.If) and isinstance(child, ast.If)
                   and child in node.orelse)
        deepest = max(deepest, inner + (isinstance(child, blocks)
                                        and not is_elif))
    return deepest


def docstring_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Not counted, as the comment above a function of C is not."""
    if ast.get_docstring(node) is None:
        return 0
    return (node.body[0].end_lineno or 0) - node.body[0].lineno + 1


def functions_python(path: str, text: str) -> list[Function]:
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return [Function(path, n.lineno, n.name,
                     (n.end_lineno or 0) - n.lineno + 1 - docstring_lines(n),
                     depth_python(n), False)
            for n in ast.walk(ast.parse(text)) if isinstance(n, kinds)]


def broken_headings(path: str, text: str) -> list[str]:
    return [f"{path}:{number}" for number, line in
            enumerate(text.splitlines(), 1) if BROKEN_HEADING.fullmatch(line)]


def listed() -> list[pathlib.Path]:
    out = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"],
                         cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / name for name in out.stdout.split("\n")
            if name.endswith((".c", ".h", ".inc", ".py", ".cpp"))
            and (ROOT / name).exists()]


def percentile(values: list[int], share: float) -> int:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def print_table(files: dict[str, int], functions: list[Function]
                ) -> dict[str, int]:
    """The 95th percentile of function lengths, by part."""
    p95: dict[str, int] = {}
    groups: dict[str, list[str]] = {}
    for path in files:
        parts = path.split("/")
        key = "/".join(parts[:2]) if parts[0] == "src" else parts[0]
        groups.setdefault(key, []).append(path)
    print(f"{'folder':<16}{'files':>6}{'lines':>8}{'max file':>9}"
          f"{'functions':>10}{'p95':>5}{'max':>5}{'nesting':>8}")
    for key, paths in [*sorted(groups.items()), ("all", list(files))]:
        own = [f for f in functions if f.path in set(paths)]
        sizes = [f.lines for f in own if not f.is_dispatch] or [0]
        p95[key] = percentile(sizes, 0.95)
        print(f"{key:<16}{len(paths):>6}{sum(files[p] for p in paths):>8}"
              f"{max(files[p] for p in paths):>9}{len(own):>10}"
              f"{p95[key]:>5}{max(sizes):>5}"
              f"{max([f.nesting for f in own], default=0):>8}")
    return p95


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--long", action="store_true",
                        help="also name what is beyond the aims")
    args = parser.parse_args()
    files: dict[str, int] = {}
    functions: list[Function] = []
    broken: list[str] = []
    for source in listed():
        name = str(source.relative_to(ROOT))
        text = source.read_text(errors="replace")
        files[name] = text.count("\n")
        reader = functions_python if name.endswith(".py") else functions_c
        functions += reader(name, text)
        broken += broken_headings(name, text)
    p95 = print_table(files, functions)

    problems = [f"{p}: {n} lines, more than {FILE_MAX}"
                for p, n in files.items() if n > FILE_MAX]
    problems += [f"{f.path}:{f.line}: {f.name} has {f.lines} lines, "
                 f"more than {FUNCTION_MAX}" for f in functions
                 if f.lines > FUNCTION_MAX and not f.is_dispatch]
    problems += [f"{part}: the 95th percentile of function lengths is {lines}, "
                 f"more than {FUNCTION_P95}" for part, lines in p95.items()
                 if lines > FUNCTION_P95]
    problems += [f"{place}: a rule without its heading; put both on one line "
                 "of 80 columns" for place in broken]
    if args.long:
        for path, lines in files.items():
            if lines > FILE_AIM:
                print(f"aim: {path}: {lines} lines")
        for f in functions:
            if f.lines > FUNCTION_P95 or f.nesting > NESTING_MAX:
                print(f"aim: {f.path}:{f.line}: {f.name}: {f.lines} lines, "
                      f"nesting {f.nesting}")
    for problem in problems:
        print(problem)
    print(f"measure: {len(files)} files, {len(functions)} functions, "
          f"{len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
