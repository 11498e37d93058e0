# SPDX-License-Identifier: Apache-2.0
"""The program under test: OPGRAFT_BUILD's, else the one beside this Python."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Callable

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def find_program() -> str | None:
    build = os.environ.get("OPGRAFT_BUILD")
    places = [pathlib.Path(build) / "bin" / "opgraft"] if build else []
    places += [pathlib.Path(sys.executable).with_name("opgraft"), ROOT / "build/bin/opgraft"]
    for place in places:
        if place.exists():
            return str(place.resolve())
    return shutil.which("opgraft")


class Program:
    """Runs `opgraft` in a folder of the test's own."""

    def __init__(self, path: str, folder: pathlib.Path) -> None:
        self.path = path
        self.folder = folder

    def run(
        self, *words: str | pathlib.Path, env: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        drop = ("OPGRAFT_ISA", "OPGRAFT_INCLUDE", "CC", "NO_COLOR")
        base = {k: v for k, v in os.environ.items() if k not in drop}
        # `python -m opgraft._adopt.gen` and its like are this Python's.
        base.setdefault("OPGRAFT_PYTHON", sys.executable)
        return subprocess.run(
            [self.path, *map(str, words)],
            cwd=self.folder,
            env=base | (env or {}),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=300,
        )

    def ok(self, *words: str | pathlib.Path, env: dict[str, str] | None = None) -> str:
        done = self.run(*words, env=env)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def fails(
        self, status: int, *words: str | pathlib.Path, env: dict[str, str] | None = None
    ) -> str:
        done = self.run(*words, env=env)
        assert done.returncode == status, (done.returncode, done.stdout, done.stderr)
        assert "opgraft: " in done.stderr
        return done.stderr

    def write(self, name: str, text: str) -> pathlib.Path:
        path = self.folder / name
        path.write_text(text)
        return path


@pytest.fixture(scope="session")
def program_path() -> str:
    path = find_program()
    if path is None:
        pytest.skip("the program is not built: set OPGRAFT_BUILD to a build folder")
    return path


@pytest.fixture(scope="session")
def program_in(program_path: str) -> Callable[[pathlib.Path], Program]:
    return lambda folder: Program(program_path, folder)


@pytest.fixture
def program(program_path: str, tmp_path: pathlib.Path) -> Program:
    return Program(program_path, tmp_path)


@pytest.fixture(scope="session")
def gate(program_path: str, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A module, gate.so, built from what `new` writes."""
    folder = tmp_path_factory.mktemp("gate")
    maker = Program(program_path, folder)
    maker.ok("new", "gate")
    maker.ok("build", "gate/gate.c")
    return folder / "gate"
