# SPDX-License-Identifier: Apache-2.0
"""tests/conftest.py: which cases of the Python tests a shorter run has."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TESTS = """\
import pytest
@pytest.mark.parametrize("n", range(10))
def test_many(n): pass
def test_one(): pass
@pytest.mark.full
@pytest.mark.parametrize("n", range(3))
def test_slow(n): pass
@pytest.mark.parametrize("n", [0, pytest.param(1, marks=pytest.mark.full)])
def test_partly_slow(n): pass
@pytest.mark.timing
def test_clock(): pass
"""


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    shutil.copy(ROOT / "tests/conftest.py", tmp_path)
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\nmarkers =\n    full: slow\n    timing: of the clock\n")
    (tmp_path / "test_it.py").write_text(TESTS)
    return tmp_path


def collected(folder: pathlib.Path, *words: str, **env: str) -> list[str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("OPGRAFT_")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p",
         "no:cacheprovider", *words], cwd=folder, text=True,
        capture_output=True,
        env={**kept, **env, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"})
    assert done.returncode == 0, done.stdout + done.stderr
    return [line.partition("::")[2] for line in done.stdout.splitlines()
            if "::" in line]


def count(found: list[str], name: str) -> int:
    return sum(test.partition("[")[0] == name for test in found)


def test_all_cases_but_those_of_the_clock(folder: pathlib.Path) -> None:
    assert len(collected(folder)) == 16
    assert "test_clock" in collected(folder, OPGRAFT_TIMING="1")


def test_every_case_has_its_turn(folder: pathlib.Path) -> None:
    drawn = [collected(folder, "-m", "not full", OPGRAFT_CASES="4",
                       OPGRAFT_TREE_SEED=str(seed)) for seed in range(3)]
    for found in drawn:
        assert count(found, "test_many") == 3 and "test_one" in found
        assert count(found, "test_slow") == 0 and "test_partly_slow[0]" in found
    assert len(set().union(*drawn)) > 6  # of 12


def test_slow_tests_of_a_landing_take_turns(folder: pathlib.Path) -> None:
    whole = collected(folder, OPGRAFT_SMOKE="1")
    assert count(whole, "test_slow") == 1 and count(whole, "test_many") == 10
    assert "test_partly_slow[1]" not in whole
    counts = [count(collected(folder, OPGRAFT_SMOKE="1", OPGRAFT_CASES="2",
                              OPGRAFT_TREE_SEED=str(seed)), "test_slow")
              for seed in range(4)]
    assert set(counts) == {0, 1}
