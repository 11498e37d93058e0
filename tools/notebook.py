#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a notebook's cells in order, in this Python, and compares or writes what
they show.

    tools/notebook.py FILE.ipynb [--write]

A cell shows what it prints and, where it ends with an expression, that value:
its text, and its _repr_html_ where it has one (not behind a semicolon). Numbers with a unit of time are
not compared. The notebook runs in a folder of its own.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import io
import json
import os
import pathlib
import re
import sys
import tempfile
from typing import Any

TIMES = re.compile(r"\d[\d.,]*(?:e[+-]?\d+)? ?(?:ns|us|µs|ms|s|min)\b")


def without_times(text: str) -> str:
    return TIMES.sub("(time)", text)


def lines(text: str) -> list[str]:
    """As a notebook file holds text."""
    return text.splitlines(keepends=True)


def shown(value: Any) -> dict[str, list[str]]:
    data = {"text/plain": lines(repr(value))}
    if hasattr(value, "_repr_html_"):
        data["text/html"] = lines(value._repr_html_())
    return data


def run_cell(source: str, names: dict[str, Any], number: int
             ) -> list[dict[str, Any]]:
    """The cell's outputs, in the notebook's form."""
    tree = ast.parse(source)
    last = None
    end = tree.body[-1] if tree.body else None
    if isinstance(end, ast.Expr):
        tree.body.pop()
        last = ast.Expression(end.value)
    where = f"cell {number}"
    printed, value = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, where, "exec"), names)
        if last is not None:
            value = eval(compile(last, where, "eval"), names)
    outputs: list[dict[str, Any]] = []
    if printed.getvalue():
        outputs.append({"name": "stdout", "output_type": "stream",
                        "text": lines(printed.getvalue())})
    if value is not None and not source.rstrip().endswith(";"):
        outputs.append({"data": shown(value), "execution_count": number,
                        "metadata": {}, "output_type": "execute_result"})
    return outputs


def run(notebook: dict[str, Any]) -> dict[str, Any]:
    """The notebook with the outputs of this run."""
    names: dict[str, Any] = {"__name__": "__main__"}
    cells, number = [], 0
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            number += 1
            cell = cell | {"execution_count": number, "outputs": run_cell(
                "".join(cell["source"]), names, number)}
        cells.append(cell)
    return notebook | {"cells": cells}


def text_of(cell: dict[str, Any]) -> str:
    """All that a cell shows, as text."""
    parts = []
    for output in cell.get("outputs", ()):
        parts += output.get("text", [])
        parts += output.get("data", {}).get("text/plain", [])
    return "".join(parts)


def differences(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    found = []
    for i, (a, b) in enumerate(zip(old["cells"], new["cells"], strict=True)):
        before, now = (without_times(text_of(c)) for c in (a, b))
        if before != now:
            found.append(f"cell {i + 1} shows\n{text_of(b)}\nexpected\n"
                         f"{text_of(a)}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n")[0])
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    path = options.file.resolve()
    old = json.loads(path.read_text())
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        new = run(old)
        os.chdir(path.parent)
    if options.write:
        path.write_text(json.dumps(new, indent=1, ensure_ascii=False) + "\n")
        return 0
    found = differences(old, new)
    print("\n".join(found) if found else
          f"{path.name}: {len(new['cells'])} cells show what they did")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
