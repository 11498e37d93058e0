# SPDX-License-Identifier: Apache-2.0
"""Files that use the package pass `mypy --strict` and pyright, and what is
wrong in one is found: the package's types reach its users."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys

import pytest

FOLDER = pathlib.Path(__file__).resolve().parent
ROOT = FOLDER.parents[1]
PYRIGHT = ROOT / ".venv-docs" / "bin" / "pyright"
WRONG = '''\
import opgraft

opgraft.load(3)
number: int = opgraft.__version__
'''


def mypy(*files: pathlib.Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", "mypy.ini",
         "--cache-dir", "/dev/null", *map(str, files)],
        cwd=FOLDER, text=True, capture_output=True)


def test_mypy_strict() -> None:
    done = mypy(*sorted(FOLDER.glob("user_*.py")))
    assert done.returncode == 0, done.stdout + done.stderr


def test_mypy_finds_wrong_types(tmp_path: pathlib.Path) -> None:
    (tmp_path / "wrong.py").write_text(WRONG)
    done = mypy(tmp_path / "wrong.py")
    assert done.returncode == 1
    assert "[arg-type]" in done.stdout and "[assignment]" in done.stdout


@pytest.mark.skipif(not PYRIGHT.exists(), reason="pyright is missing: make docs")
def test_pyright(tmp_path: pathlib.Path) -> None:
    def errors(*words: str) -> list[str]:
        done = subprocess.run(
            [str(PYRIGHT), "--outputjson", "--pythonpath", sys.executable,
             *words], cwd=FOLDER, text=True, capture_output=True)
        return [d.get("rule", d["message"])
                for d in json.loads(done.stdout)["generalDiagnostics"]
                if d["severity"] == "error"]
    assert errors("-p", ".") == []
    (tmp_path / "wrong.py").write_text(WRONG)
    assert errors(str(tmp_path / "wrong.py")) == [
        "reportArgumentType", "reportAssignmentType"]
