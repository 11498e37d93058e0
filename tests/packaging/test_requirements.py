# SPDX-License-Identifier: Apache-2.0
"""Every requirement is pinned, and docs/installing.md says what it is for."""

from __future__ import annotations

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FILES = [*sorted((ROOT / "requirements").glob("*.txt")),
         *(ROOT / "tools" / name for name in (
             "requirements.txt", "rivals.txt"))]

# What the table has of the operating system, and what PyTorch brings.
SYSTEM = {"gcc", "g++", "make", "libyaml", "libffi"}


def lines(path: pathlib.Path) -> list[str]:
    found = (line.partition("#")[0].strip()
             for line in path.read_text().splitlines())
    return [line for line in found if line]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_pinned(path: pathlib.Path) -> None:
    assert lines(path)
    for line in lines(path):
        assert re.fullmatch(
            r'[\w.-]+(\[\w+\])?==[\w.]+(; python_version >= "3\.11")?'
            r'|[\w.-]+; python_version < "3\.11"', line), line


def test_each_is_in_the_table() -> None:
    needed = {re.split(r"[=;\[]", line)[0] for path in FILES
              for line in lines(path)}
    page = (ROOT / "docs" / "installing.md").read_text()
    table = page[page.index("## What each dependency is for"):]
    rows = re.findall(r"^\| (`[^|]+`) \|", table, re.M)
    named = {name for row in rows for name in re.findall(r"`([^`]+)`", row)}
    assert needed <= named, f"without a row: {sorted(needed - named)}"
    assert named - needed == SYSTEM, f"not needed: {sorted(named - needed)}"

