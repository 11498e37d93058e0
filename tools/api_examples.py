# SPDX-License-Identifier: Apache-2.0
"""Where a public name is used by something that CI runs: pages first, whose
blocks tests/docs and tests/python/adopt run, then examples, then tests."""

from __future__ import annotations

import functools
import pathlib
import re
import textwrap

ROOT = pathlib.Path(__file__).resolve().parents[1]
# Pages whose blocks are run, with their titles.
PAGES = {"start": "Your first operator", "embedding": "Embedding in C",
         "lists": "Lists", "moving": "Moving", "numerics": "Numerics",
         "serving": "Serving", "testing": "Testing", "threads": "Threads",
         "types": "Types", "wrong-number": "A wrong number",
         "adopt": "Adopt callables", "adopt-c": "Adopt C and C++",
         "adopt-python": "Adopt Python callables", "abi": "ABI"}
STATEMENT_LINES = 8
FENCE = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```$", re.S | re.M)
FOLDERS = ("examples", "tests/errors", "tests/findings", "tests/unit",
           "tests/modules", "tests/python", "tests/conformance", "tests/cli",
           "tests/packaging", "tests/tools", "ops", "devices", "cli", "hosts")


@functools.cache
def texts(suffix: str) -> dict[str, str]:
    """Place: code. A place is a page's name, or a path."""
    is_c = suffix == ".c"
    found = {}
    for name in PAGES:
        text = (ROOT / "docs" / f"{name}.md").read_text()
        found[name] = "".join(
            code for language, code in FENCE.findall(text)
            if language == ("c" if is_c else "python"))
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.[ch]" if is_c else "*.py")):
            found[str(path.relative_to(ROOT))] = path.read_text()
    return found


@functools.cache
def place_of(name: str, suffix: str) -> str:
    """The first place that uses the name; empty where none does."""
    used = re.compile(rf"\b{re.escape(name)}\b")
    return next((place for place, text in texts(suffix).items()
                 if name in text and used.search(text)), "")


def statement(names: list[str], suffix: str) -> tuple[str, list[str]]:
    """(place, lines) of the first call of one of these names, up to the end of
    its statement; the shortest of those in the first place that has one."""
    for name in names:
        called = re.compile(rf"^[^/#\n]*\b{re.escape(name)}\(", re.M)
        for place, text in texts(suffix).items():
            found = [lines_from(text, m.start())
                     for m in called.finditer(text)] if name in text else []
            found = [lines for lines in found if lines]
            if found:
                return place, min(found, key=len)
    return "", []


def lines_from(text: str, at: int) -> list[str]:
    """The statement that begins on this line; none where it is a definition or
    has more than STATEMENT_LINES."""
    lines, depth = [], 0
    for line in text[at:].splitlines()[:STATEMENT_LINES]:
        bare = re.sub(r"\"(?:[^\"\\]|\\.)*\"|//.*", "", line)
        depth += bare.count("(") - bare.count(")")
        lines.append(line)
        if depth <= 0:
            is_definition = line.rstrip().endswith("{") and line[:1] != " "
            return [] if is_definition else textwrap.dedent(
                "\n".join(lines)).split("\n")
    return []


def shown(place: str, up: str) -> str:
    """A link to a page, from a page `up` below docs/; else the path."""
    return (f"[{PAGES[place]}]({up}{place}.md)" if place in PAGES
            else f"`{place}`")


def line(names: list[str], suffix: str, up: str) -> str:
    """What stands under an entry with these names."""
    places = dict.fromkeys(place_of(name, suffix) for name in names)
    if not any(places):
        return ""
    return "Used by " + ", ".join(shown(p, up) for p in places if p) + "."
