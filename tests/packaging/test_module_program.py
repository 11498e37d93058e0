# SPDX-License-Identifier: Apache-2.0
"""`python -m opgraft` is the program `opgraft`."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, text=True, capture_output=True)


@pytest.mark.full
def test_it_is_the_program() -> None:
    program = str(pathlib.Path(sys.executable).with_name("opgraft"))
    for words in (["--version"], ["help", "check"], ["build"]):
        ours = run(sys.executable, "-m", "opgraft", *words)
        its = run(program, *words)
        assert (ours.returncode, ours.stdout, ours.stderr) == (
            its.returncode, its.stdout, its.stderr)
    assert ours.returncode == 2


def test_without_the_program(tmp_path: pathlib.Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "opgraft", "info"], text=True,
        capture_output=True, env={"OPGRAFT_PROGRAM": str(tmp_path / "none")})
    assert done.returncode == 1
    assert done.stderr == (
        f"opgraft: the program {tmp_path / 'none'} did not start: No such file "
        "or directory; install opgraft, or set OPGRAFT_PROGRAM to the "
        "program\n")
