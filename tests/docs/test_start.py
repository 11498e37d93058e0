# SPDX-License-Identifier: Apache-2.0
"""Pages that are a walk do what they say: their files are written and their
commands run in an empty folder, in order, and the output is the page's."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import time

import pytest
from pages import ROOT, Block, blocks, matches, run

PAGES = {"start": 4, "wrong-number": 3}  # commands, and outputs compared
MARK = "ended-at"
NEWCOMER_MAX_S = 600


def walk(page: str, folder: pathlib.Path,
         tools: pathlib.Path = pathlib.Path(sys.executable).parent) -> None:
    """Does what the page says, but for installing."""
    output, compared, started = "", 0, 0
    for block in blocks(ROOT / "docs" / f"{page}.md"):
        if block.language in ("c", "python"):
            (folder / block.word).write_text(block.text)
        elif block.language == "sh" and block.word != "install":
            done = run(block.text, folder, tools)
            assert (done.returncode != 0) == (block.word == "fails"), \
                block.text + done.stdout
            output, started = done.stdout, started + 1
        elif block.language == "text":
            assert matches(block.text, output), \
                f"the page:\n{block.text}\nfound:\n{output}"
            compared += 1
    assert started == compared == PAGES[page]


@pytest.mark.parametrize("page", PAGES)
def test_page(tmp_path: pathlib.Path, page: str) -> None:
    walk(page, tmp_path)


@pytest.mark.full
def test_a_newcomer(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
                    ) -> None:
    """The first page from an empty folder, with a clean home and an environment
    that its own commands make."""
    source, folder = tmp_path / "opgraft", tmp_path / "own"
    home = tmp_path / "home"
    for path in (source, folder, home):
        path.mkdir()
    files = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, check=True,
                           stdout=subprocess.PIPE).stdout
    subprocess.run(["tar", "-x"], cwd=source, input=files, check=True)
    install = next(block for block in blocks(ROOT / "docs" / "start.md")
                   if block.word == "install").text
    timed = "".join(f"{line}\necho {MARK} $(date +%s)\n"
                    for line in ["true", *install.splitlines()])
    env = {name: value for name, value in os.environ.items()
           if name.startswith("PIP_")}
    if os.environ.get("OPGRAFT_SMOKE"):  # not optimised, and else the same
        env["SKBUILD_CMAKE_DEFINE"] = "CMAKE_C_FLAGS_RELEASE=-O0"
    done = subprocess.run(
        ["sh", "-e", "-c", timed], cwd=source, text=True,
        env={**env, "PATH": os.defpath, "HOME": str(home), "LANG": "C.UTF-8"},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout
    ends = [int(line.split()[1]) for line in done.stdout.splitlines()
            if line.startswith(MARK)]
    seconds = {line: end - begin for line, begin, end in
               zip(install.splitlines(), ends, ends[1:])}
    begin = time.monotonic()
    walk("start", folder, source / "env" / "bin")
    own = time.monotonic() - begin + sum(
        s for line, s in seconds.items() if "torch" not in line)
    with capsys.disabled():
        print(f"\na newcomer's run: {own:.0f} s besides "
              f"{sum(s for line, s in seconds.items() if 'torch' in line)} s "
              "of installing torch")
    assert own <= NEWCOMER_MAX_S


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
