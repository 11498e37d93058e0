# SPDX-License-Identifier: Apache-2.0
"""Where a public name is used by something that CI runs: pages first, whose
blocks tests/docs and tests/python/adopt run, then examples, then tests."""

from __future__ import annotations

import functools
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[1]
# Pages whose blocks are run, with their titles.
PAGES = {"start": "Your first operator", "embedding": "Embedding in C",
         "lists": "Lists", "moving": "Moving", "numerics": "Numerics",
         "serving": "Serving", "testing": "Testing", "threads": "Threads",
         "types": "Types", "wrong-number": "A wrong number",
         "adopt": "Adopt callables", "abi": "ABI"}
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
