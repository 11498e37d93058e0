#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails on an include that goes up the layers of docs/design.md, on a name that
a layer is to know nothing of, on a limit for threads outside of GRAINS, and on
C++ besides that of CXX."""

from __future__ import annotations

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
# Lowest first; a folder includes itself and what stands before it.
LAYERS = ["base", "scalar", "loop", "decl", "module", "device", "call",
          "check", "graph", "import", "pass", "plan", "kernel", "exec", "trace",
          "report"]
# The rooms of a folder, lowest first; files beside them stand above all.
ROOMS = {"check": ["sample", "run", "probe", "verdict"],
         "exec": ["step", "plain", "fast", "device", "runners", "choose",
                  "replay"],
         "torch": ["base", "adopt", "device", "call", "graph", "gguf"]}
# Kernels run for operators, the engine and tests: each lends an og_kernel_env,
# and what a call holds at which position is read in ops/.
UNKNOWN = {"kernel": (re.compile(r"\bog_(?:sample_|infer_)?call\b"),
                      "take an og_kernel_env; ops/ reads calls")}
# What operators may include of src: og_kernels and the limits for threads.
GRAINS = "base/grain.h"
# What the program includes of hosts: their names.
HOSTS = "hosts/hosts.def"
# Parallel loops, whose third argument is the grain; 1 and 2 do not limit.
LOOP = re.compile(r"\bog_(?:run_parallel|parallel_tasks|parallel_for|"
                  r"env_parallel|team_run)\(")
LIMIT = re.compile(r"\b(?:[3-9]|\d{2,})\b")
OWN_LIMIT = re.compile(rf"\b(?:OG_)?GRAIN\w*\s*=\s*\d|"
                       rf"\bgrain\s*=[^;]*{LIMIT.pattern}")
# The one file of C++: what torch gives C++ alone, behind a table of C functions.
CXX = "hosts/torch/device/registry.cpp"
CXX_LINES_MAX = 400
CXX_INCLUDES = ("registry.h", "ATen/", "c10/", "torch/csrc/")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
PUBLIC = re.compile(r"opgraft/[\w/]+\.h$")
HEADER_LINES_MAX = 400


def includes(path: pathlib.Path) -> list[tuple[int, str, str]]:
    found = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        match = INCLUDE.match(line)
        if match:
            found.append((number, match[1], match[2]))
    return found


def sources(folder: str) -> list[pathlib.Path]:
    return [p for p in sorted((ROOT / folder).rglob("*"))
            if p.suffix in (".c", ".h", ".def", ".inc")]


def is_libc(name: str) -> bool:
    return not name.startswith(("opgraft/", "torch/", "ATen/", "c10/"))


def height(name: str) -> int:
    """Where a file of src or hosts stands among the rooms of its folder."""
    folder, _, rest = name.partition("/")
    rooms = ROOMS.get(folder, [])
    room = rest.partition("/")[0]
    return rooms.index(room) if room in rooms else len(rooms)


def check_src(path: pathlib.Path) -> list[str]:
    own = path.relative_to(ROOT / "src").parts[0]
    if own not in LAYERS:
        return [f"{path.relative_to(ROOT)}: src/{own} is not a layer"]
    problems = []
    for number, mark, name in includes(path):
        if mark == "<" or PUBLIC.match(name):
            continue
        layer = name.split("/")[0]
        where = f"{path.relative_to(ROOT)}:{number}"
        if "/" not in name:
            problems.append(f'{where}: "{name}" has no folder; '
                            f'write "{own}/{name}"')
        elif layer not in LAYERS:
            problems.append(f'{where}: "{name}" is in no layer')
        elif LAYERS.index(layer) > LAYERS.index(own):
            problems.append(f'{where}: {own} includes "{name}", '
                            "which stands above it")
        elif layer == own and is_above(path, "src", name):
            problems.append(f'{where}: {path.parent.name} includes "{name}", '
                            "which stands above it")
    return problems + unknown_names(path, own) + own_limits(path)


def unknown_names(path: pathlib.Path, own: str) -> list[str]:
    if own not in UNKNOWN:
        return []
    name, advice = UNKNOWN[own]
    return [f"{path.relative_to(ROOT)}:{number}: src/{own} names {match[0]}: "
            f"{advice}"
            for number, line in enumerate(path.read_text().splitlines(), 1)
            for match in name.finditer(line)]


def arguments(text: str) -> list[str]:
    """Those of a call whose bracket stands before `text`."""
    found, depth = [""], 1
    for char in text:
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(char, 0)
        if depth == 0:
            break
        if char == "," and depth == 1:
            found.append("")
        else:
            found[-1] += char
    return found


def own_limits(path: pathlib.Path) -> list[str]:
    """Grains that are numbers, in src and ops."""
    if path == ROOT / "src" / GRAINS:
        return []
    text = path.read_text()
    starts = [match.start() for match in OWN_LIMIT.finditer(text)]
    for match in LOOP.finditer(text):
        given = arguments(text[match.end():])
        if len(given) > 2 and LIMIT.search(given[2]):
            starts.append(match.start())
    return [f"{path.relative_to(ROOT)}:{text.count(chr(10), 0, start) + 1}: a "
            f"grain of its own; name it in {GRAINS}" for start in starts]


def is_above(path: pathlib.Path, top: str, name: str) -> bool:
    return height(name) > height(str(path.relative_to(ROOT / top)))


def check_outside(path: pathlib.Path, own: str, only_op: bool) -> list[str]:
    """ops/, hosts/ and cli/: public headers and their own folder."""
    problems = []
    for number, mark, name in includes(path):
        where = f"{path.relative_to(ROOT)}:{number}"
        if mark == "<":
            allowed = (("opgraft/op.h", "opgraft/cuda") if only_op
                       else ("opgraft/",))
            if not is_libc(name) and not name.startswith(allowed):
                problems.append(f"{where}: <{name}> is not for {own}")
            continue
        local = [path.parent / name, ROOT / own / name, ROOT / name]
        here = any(p.exists() and (ROOT / own) in p.resolve().parents
                   for p in local)
        here |= own == "cli" and name == HOSTS
        kernel = only_op and (name.startswith("kernel/") or name == GRAINS)
        if not here and not kernel:
            problems.append(f'{where}: "{name}" is not for {own}')
        elif own == "hosts" and is_above(path, own, name):
            problems.append(f'{where}: {path.parent.name} includes "{name}", '
                            "which stands above it")
    return problems + (own_limits(path) if only_op else [])


def check_public(path: pathlib.Path) -> list[str]:
    problems = []
    lines = len(path.read_text().splitlines())
    if lines > HEADER_LINES_MAX:
        problems.append(f"{path.relative_to(ROOT)}: {lines} lines, "
                        f"more than {HEADER_LINES_MAX}")
    for number, mark, name in includes(path):
        if mark == '"' or not is_libc(name) and not name.startswith("opgraft/"):
            problems.append(f"{path.relative_to(ROOT)}:{number}: {name} "
                            "in a public header")
    return problems


def check_cxx() -> list[str]:
    found = {str(path.relative_to(ROOT)): path
             for folder in ("src", "include", "hosts", "cli", "ops", "devices",
                            "python")
             for path in sorted((ROOT / folder).rglob("*"))
             if path.suffix in (".cc", ".cpp", ".cxx", ".hpp")}
    problems = [f"{name}: C++, expected in {CXX} alone"
                for name in found if name != CXX]
    if CXX in found:
        lines = len(found[CXX].read_text().splitlines())
        if lines > CXX_LINES_MAX:
            problems.append(f"{CXX}: {lines} lines, more than {CXX_LINES_MAX}")
        problems += [f"{CXX}:{number}: {name} is not for it"
                     for number, _, name in includes(found[CXX])
                     if "/" in name and not name.startswith(CXX_INCLUDES)]
    return problems


def main() -> int:
    problems = check_cxx()
    count = 1
    for path in sources("src"):
        problems += check_src(path)
        count += 1
    for own, only_op in (("ops", True), ("hosts", False), ("cli", False),
                         ("devices", False)):
        for path in sources(own):
            problems += check_outside(path, own, only_op)
            count += 1
    for path in sources("include"):
        problems += check_public(path)
        count += 1
    for problem in problems:
        print(problem)
    print(f"layers: {count} files, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
