#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes docs/operators/ from the declarations of the operator library.

    tools/operator_docs.py --build BUILD [--check]

A page for each module: the header comment of its file, then of each operator
what `opgraft inspect` says. With --check nothing is written, and a page that
differs fails.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "operators"
FIELDS = {
    "shape": "Shapes", "where": "Conditions", "dtype": "Types",
    "backward": "Gradient", "workspace": "Workspace", "strides": "Strides",
    "inplace": "In-place form of", "flags": "Flags",
}


def listed() -> list[tuple[str, str]]:
    text = (ROOT / "ops" / "ops.def").read_text()
    return re.findall(r"^X\((\w+), *(\w+)\)", text, flags=re.M)


def header(file: str) -> tuple[str, str]:
    """What a file's header comment says, and its sources."""
    lines = []
    for line in (ROOT / "ops" / f"{file}.c").read_text().splitlines()[1:]:
        if not line.startswith("//"):
            break
        lines.append(line[2:].strip())
    text = " ".join(lines)
    what, _, source = text.partition("Source: ")
    return what.strip(), source.strip()


def operators(text: str) -> list[tuple[str, dict[str, str], list[str]]]:
    """(schema, fields, kernels) of each operator that inspect prints."""
    found: list[tuple[str, dict[str, str], list[str]]] = []
    for line in text.splitlines()[1:]:
        if line and not line.startswith(" "):
            found.append((line, {}, []))
        elif line.startswith("  kernel "):
            found[-1][2].append(line.split(None, 2)[2])
        elif line.strip():
            key, _, value = line.strip().partition(" ")
            found[-1][1][key] = value.strip()
    return found


def page(module: str, file: str, inspected: str) -> str:
    what, source = header(file)
    parts = [f"# {module}", "", what, ""]
    if source:
        parts += [f"Source: {source}", ""]
    for schema, fields, kernels in operators(inspected):
        name = schema.split("(")[0]
        parts += [f"## {name}", "", f"    {schema}", ""]
        if "doc" in fields:
            parts += [fields["doc"], ""]
        parts += ["| | |", "|---|---|"]
        for key, title in FIELDS.items():
            if key in fields:
                value = fields[key].replace("|", "\\|")
                parts.append(f"| {title} | `{value}` |")
        sets = " · ".join(k.replace("|", "\\|") for k in kernels)
        parts += [f"| Kernels | {sets} |", ""]
    return "\n".join(parts).rstrip() + "\n"


def written(text: str, described: str) -> str:
    """Without operators that were derived: whoever has the formula has them."""
    for op in json.loads(described)["ops"]:
        if op["is_derived"]:
            text = re.sub(rf"^{re.escape(op['name'])}\(.*?(?=^\S|\Z)", "", text,
                          flags=re.M | re.S)
    return text


def index(pages: dict[str, str]) -> str:
    rows = ["# The operator library", "",
            "Written by tools/operator_docs.py from the declarations. "
            "examples/ragged_serving serves a model with them; "
            "[coverage.md](coverage.md) says which test covers what.", "",
            "| Module | Operators |", "|---|---|"]
    for module, text in pages.items():
        names = re.findall(r"^## (\w+)$", text, flags=re.M)
        shown = ", ".join(n for n in names if not n.endswith("_backward"))
        rows.append(f"| [{module}]({module}.md) | {shown} |")
    return "\n".join(rows) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    pages = {}
    for module, file in listed():
        said, described = (subprocess.run(
            [options.build / "bin" / "opgraft", "inspect", *flags,
             options.build / "modules" / f"{module}.so"],
            capture_output=True, text=True, check=True).stdout
            for flags in ([], ["--json"]))
        pages[module] = page(module, file, written(said, described))
    texts = {f"{m}.md": t for m, t in pages.items()}
    texts["README.md"] = index(pages)
    stale = 0
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, text in sorted(texts.items()):
        path = FOLDER / name
        if options.check and (not path.exists() or path.read_text() != text):
            print(f"docs/operators/{name} is not what the declarations say; "
                  "run tools/operator_docs.py")
            stale += 1
        elif not options.check:
            path.write_text(text)
    return stale > 0


if __name__ == "__main__":
    sys.exit(main())
