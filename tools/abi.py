#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds what the library exports and how its structs lie in memory.

From the public headers it writes a C program that prints the size of every
struct, the offset of every field and the value of every enumerator, and
compares what that prints, and the exported symbols, with tests/abi/*.golden.
A struct that begins with its size is tried by a unit test with callers of
another age, and docs/abi.md says of each struct whether it has one.
Besides: each header compiles alone as C11 and C++17, nothing of the library's
own is left undefined, and libopgraft, stripped, keeps its size limit.
"""

from __future__ import annotations

import argparse
import difflib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
GOLDEN = ROOT / "tests" / "abi"
HEADERS = [f"opgraft/{path.name}" for path in
           sorted((ROOT / "include" / "opgraft").glob("*.h"))]
SIZE_MAX = 384 * 1024
STRUCT = re.compile(r"^(?:typedef )?struct (\w+) \{(.*?)^\}", re.S | re.M)
TRIED = re.compile(r"^ +(?:READ|FILLED|HANDED)\((\w+)", re.M)
ENUM = re.compile(r"\benum(?: \w+)? \{(.*?)\}", re.S)


def cc() -> str:
    return os.environ.get("CC", "cc")


def run(*words: str | pathlib.Path) -> str:
    done = subprocess.run([str(w) for w in words], capture_output=True,
                          text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, words))}\n{done.stderr}")
    return done.stdout


def include_lines() -> list[str]:
    return [f"#include <{header}>" for header in HEADERS]


def header_text(tmp: pathlib.Path) -> str:
    """Our own headers after the preprocessor, system headers left out."""
    source = tmp / "headers.c"
    source.write_text("\n".join(include_lines()) + "\n")
    lines = run(cc(), "-std=c11", "-E", "-I", ROOT / "include",
                source).split("\n")
    kept: list[str] = []
    ours = False
    for line in lines:
        marker = re.match(r'# \d+ "([^"]+)"', line)
        if marker:
            ours = "/include/opgraft/" in marker[1]
        elif ours:
            kept.append(line)
    return "\n".join(kept)


def fields(body: str) -> list[str]:
    """Field names in order; members of an anonymous union count as fields."""
    names = []
    for part in re.sub(r"union \{|\}", ";", body).split(";"):
        part = " ".join(part.split())
        if not part:
            continue
        pointer = re.search(r"\(\*(\w+)\)", part)
        plain = re.search(r"(\w+)(?:\[[^\]]*\])*$", part)
        match = pointer or plain
        if match:
            names.append(match[1])
    return names


def layout_program(text: str) -> str:
    out = [*include_lines(), "#include <stddef.h>", "#include <stdio.h>",
           "int main(void) {"]
    for name, body in STRUCT.findall(text):
        out.append(f'printf("struct {name} %zu\\n", sizeof(struct {name}));')
        out += [f'printf("  {f} %zu\\n", offsetof(struct {name}, {f}));'
                for f in fields(body)]
    for body in ENUM.findall(text):
        for entry in body.split(","):
            name = entry.split("=")[0].strip()
            if name:
                out.append(f'printf("{name} %lld\\n", (long long){name});')
    return "\n".join([*out, "return 0;", "}"]) + "\n"


def layout(tmp: pathlib.Path) -> str:
    source = tmp / "layout.c"
    source.write_text(layout_program(header_text(tmp)))
    run(cc(), "-std=c11", "-I", ROOT / "include", source, "-o", tmp / "layout")
    return run(tmp / "layout")


def documented(*starts: str) -> set[str]:
    """What the lines of docs/abi.md with these beginnings name."""
    lines = (ROOT / "docs" / "abi.md").read_text().splitlines()
    return {name for line in lines if line.startswith(starts)
            for name in re.findall(r"`(\w+)`", line)}


def check_sized(text: str) -> str:
    structs = {name: fields(body) for name, body in STRUCT.findall(text)}
    sized = {name for name, names in structs.items()
             if names[:1] == ["struct_size"]}
    tried = {name for path in (ROOT / "tests" / "unit").glob("*.c")
             for name in TRIED.findall(path.read_text())}
    told = documented("| the ")
    fixed = documented("**Fixed structs**", "**Arrays**") - sized
    problems = {
        "in no table of a unit test": sized - tried,
        "in a table of a unit test, but without struct_size":
            tried - sized,
        "not in the table of docs/abi.md": sized - told,
        "in the table of docs/abi.md, but without struct_size":
            (told - sized) & set(structs),
        "without struct_size, and not fixed in docs/abi.md":
            set(structs) - sized - fixed,
    }
    return "\n".join(f"{', '.join(sorted(names))}: {what}"
                     for what, names in problems.items() if names)


def symbols(library: pathlib.Path) -> str:
    names = [line.split()[-1] for line in
             run("nm", "-D", "--defined-only", library).splitlines()]
    return "".join(f"{name}\n" for name in sorted(names))


def check_golden(name: str, found: str, update: bool) -> str:
    path = GOLDEN / name
    if update:
        path.write_text(found)
        return ""
    wanted = path.read_text() if path.exists() else ""
    return "\n".join(difflib.unified_diff(
        wanted.splitlines(), found.splitlines(), f"tests/abi/{name}", "found",
        lineterm=""))


def check_symbols(library: pathlib.Path, golden: str, update: bool) -> str:
    found = symbols(library)
    strange = [n for n in found.split() if not n.startswith("opgraft_")]
    if strange:
        return "exported, but not opgraft_*: " + ", ".join(strange)
    missing = [line.split()[-1] for line in
               run("nm", "-D", "--undefined-only", library).splitlines()
               if line.split()[-1].startswith(("og_", "opgraft_"))]
    if missing:
        return "used, but defined nowhere: " + ", ".join(missing)
    return check_golden(golden, found, update)


def stripped_size(library: pathlib.Path, tmp: pathlib.Path) -> int:
    copy = tmp / "stripped.so"
    shutil.copyfile(library.resolve(), copy)
    run("strip", copy)
    return copy.stat().st_size


def check_size(core: pathlib.Path, others: list[pathlib.Path],
               tmp: pathlib.Path) -> str:
    """The limit is that of libopgraft, which loads and calls."""
    size = stripped_size(core, tmp)
    print(f"libopgraft, stripped: {size / 1024:.0f} KB of "
          f"{SIZE_MAX // 1024} KB", *(
              f"{other.stem}: {stripped_size(other, tmp) / 1024:.0f} KB"
              for other in others), sep="; ")
    if size <= SIZE_MAX:
        return ""
    objects = core.resolve().parents[1] / "CMakeFiles" / "og_objects.dir"
    rows = [run("size", path).splitlines()[1].split()
            for path in sorted(objects.rglob("*.o"))]
    rows.sort(key=lambda row: -int(row[0]))
    largest = "\n".join(f"  {row[0]} {row[5]}" for row in rows[:10])
    return f"{size} bytes, more than {SIZE_MAX}; the largest:\n{largest}"


def check_headers() -> str:
    flags = ["-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic", "-Werror",
             "-I", str(ROOT / "include")]
    for header in HEADERS:
        with tempfile.NamedTemporaryFile("w", suffix=".c") as file:
            file.write(f"#include <{header}>\n")
            file.flush()
            try:
                run(cc(), "-std=c11", *flags, file.name)
                cxx = os.environ.get("CXX", "c++")
                if shutil.which(cxx):
                    run(cxx, "-std=c++17", *flags, "-x", "c++", file.name)
            except RuntimeError as error:
                return str(error)
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--update", action="store_true",
                        help="write the golden files")
    args = parser.parse_args()
    core, checks_too, graph = (args.build / "lib" / f"libopgraft{name}.so"
                          for name in ("", "_check", "_graph"))
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        tmp = pathlib.Path(folder)
        checks = {
            "headers": check_headers,
            "layout": lambda: check_golden("layout.golden", layout(tmp),
                                           args.update),
            "sizes": lambda: check_sized(header_text(tmp)),
            "core symbols": lambda: check_symbols(
                core, "symbols.golden", args.update),
            "check symbols": lambda: check_symbols(
                checks_too, "symbols_check.golden", args.update),
            "graph symbols": lambda: check_symbols(
                graph, "symbols_graph.golden", args.update),
            "size": lambda: check_size(core, [checks_too, graph], tmp),
        }
        for name, check in checks.items():
            try:
                problem = check()
            except (RuntimeError, OSError) as error:
                problem = str(error)
            if problem:
                failed += 1
                print(f"FAILED abi {name}:\n{problem}")
    print(f"abi: {len(checks) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
