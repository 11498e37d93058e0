# SPDX-License-Identifier: Apache-2.0
"""Pages that are a walk do what they say: their files are written and their
commands run in an empty folder, in order, and the output is the page's."""

from __future__ import annotations

import pathlib

import pytest
from pages import ROOT, Block, blocks, matches, run

PAGES = ("start", "wrong-number")


@pytest.mark.parametrize("page", PAGES)
def test_page(tmp_path: pathlib.Path, page: str) -> None:
    output, compared, started = "", 0, 0
    for block in blocks(ROOT / "docs" / f"{page}.md"):
        if block.language in ("c", "python"):
            (tmp_path / block.word).write_text(block.text)
        elif block.language == "sh" and block.word != "install":
            done = run(block.text, tmp_path)
            assert (done.returncode != 0) == (block.word == "fails"), \
                block.text + done.stdout
            output, started = done.stdout, started + 1
        elif block.language == "text":
            assert matches(block.text, output), \
                f"the page:\n{block.text}\nfound:\n{output}"
            compared += 1
    assert started == compared == 3


@pytest.mark.parametrize("page", PAGES)
def test_every_block_is_run(page: str) -> None:
    for block in blocks(ROOT / "docs" / f"{page}.md"):
        if block.language in ("c", "python"):
            assert block.word.endswith((".c", ".py"))
        else:
            assert (block.language, block.word) in {
                ("sh", ""), ("sh", "install"), ("sh", "fails"), ("text", "")}


@pytest.mark.parametrize("expected, found, is_match", [
    ("a … b", "a 12 3 b\n", True), ("a … b", "a 12 c", False),
    ("…x…", "one\nx\ntwo", True), ("a.b", "axb", False),
])
def test_matches(expected: str, found: str, is_match: bool) -> None:
    assert matches(expected, found) == is_match


def test_a_command_that_fails_is_told(tmp_path: pathlib.Path) -> None:
    block = Block("sh", "", "false\necho on")
    done = run(block.text, tmp_path)
    assert done.returncode != 0 and "on" not in done.stdout
