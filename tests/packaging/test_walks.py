# SPDX-License-Identifier: Apache-2.0
"""The walks of docs/design.md: each names files that exist, each file once,
and what its rows say of functions is true of their files."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SECTION = (ROOT / "docs/design.md").read_text().split("## 8. Three walks")[1]
WALKS = [table for table in SECTION.split("\n\n") if table.startswith("|")]
PER_SCREEN = 20  # rows
# Stands for the one of many that a call takes.
CHOSEN = re.compile(r"\bNAME\b")


def rows(table: str) -> list[tuple[list[str], str]]:
    """The files of each row, and what it says of them."""
    out = []
    for line in table.splitlines()[2:]:
        _, _, files, text, _ = line.split("|")
        out.append((re.findall(r"`([^`]+)`", files), text))
    return out


def test_there_are_three() -> None:
    assert len(WALKS) == 3


@pytest.mark.parametrize("table", WALKS)
def test_files_exist_and_are_passed_once(table: str) -> None:
    files = [file for some, _ in rows(table) for file in some]
    assert len(files) == len(set(files))
    for file in files:
        assert list(ROOT.glob(CHOSEN.sub("*", file))), file
    assert len(rows(table)) <= PER_SCREEN


@pytest.mark.parametrize("table", WALKS)
def test_named_functions_stand_in_their_files(table: str) -> None:
    """A name with an underscore is a function; the row's file has it."""
    for files, text in rows(table):
        for name in re.findall(r"`(\w+_\w+)`", text):
            assert any(name in (ROOT / file).read_text() for file in files), \
                f"{name} in {files}"
