# SPDX-License-Identifier: Apache-2.0
"""Guides do what they say, as the Start page does (test_start.py), and every
block of code of every page is run, or its page says what runs it."""

from __future__ import annotations

import pathlib
import re

import pytest
from pages import ROOT, Scripts, blocks, matches

# Commands that each page starts, and outputs of them that are compared.
GUIDES = {"embedding": (2, 2), "freeze": (1, 1), "lists": (2, 2),
          "moving": (1, 1), "numerics": (1, 1), "run": (6, 4),
          "serving": (1, 1), "testing": (4, 4), "threads": (2, 2),
          "transformers": (1, 1), "types": (3, 3)}
FILES = ("c", "python", "toml", "cmake")


@pytest.fixture(scope="module")
def scripts() -> Scripts:
    return Scripts()


@pytest.mark.parametrize("page", GUIDES)
def test_page(tmp_path: pathlib.Path, scripts: Scripts, page: str) -> None:
    output, compared, started = "", 0, 0
    for block in blocks(ROOT / "docs" / f"{page}.md"):
        if block.language in FILES:
            (tmp_path / block.word).write_text(block.text)
        elif block.language == "sh":
            status, output = scripts.run(block.text, tmp_path)
            assert (status != 0) == (block.word == "fails"), \
                block.text + output
            started += 1
        elif block.language == "text":
            assert matches(block.text, output), \
                f"the page:\n{block.text}\nfound:\n{output}"
            compared += 1
    assert (started, compared) == GUIDES[page]


@pytest.mark.parametrize("page", GUIDES)
def test_every_block_is_run(page: str) -> None:
    for block in blocks(ROOT / "docs" / f"{page}.md"):
        if block.language in FILES:
            assert block.word, block.text
        else:
            assert (block.language, block.word) in {
                ("sh", ""), ("sh", "fails"), ("text", "")}


def test_a_script_that_fails_is_told(tmp_path: pathlib.Path,
                                     scripts: Scripts) -> None:
    (tmp_path / "a.py").write_text("print('here')\nraise SystemExit(3)\n")
    assert scripts.run("python a.py\necho on\n", tmp_path) == (3, "here\n")
    (tmp_path / "a.py").write_text("1 / 0\n")
    status, output = scripts.run("python a.py\n", tmp_path)
    assert status == 1 and "ZeroDivisionError" in output


def test_guides_are_short() -> None:
    """Paragraphs of at most five lines of 100 characters."""
    for page in GUIDES:
        text = re.sub(r"^```.*?^```$", "", (
            ROOT / "docs" / f"{page}.md").read_text(), flags=re.S | re.M)
        for paragraph in text.split("\n\n"):
            if not paragraph.startswith(("|", "- ", "#")):
                assert len(paragraph) <= 500, (page, paragraph)


def test_paragraphs_have_90_words() -> None:
    """At most; tables and code aside."""
    for page in (ROOT / "docs").glob("*.md"):
        text = re.sub(r"^ *```.*?^ *```$", "", page.read_text(),
                      flags=re.S | re.M)
        for line in text.splitlines():
            assert line.startswith("|") or len(line.split()) <= 90, (page, line)
