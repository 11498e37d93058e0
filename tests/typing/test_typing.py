# SPDX-License-Identifier: Apache-2.0
"""Files that use the package pass `mypy --strict` and pyright, and what is
wrong in one is found: the package's types reach its users."""

from __future__ import annotations

import json
import pathlib
import shutil
import subprocess
import sys

import pytest

FOLDER = pathlib.Path(__file__).resolve().parent
ROOT = FOLDER.parents[1]
PROGRAM = (shutil.which("opgraft")
           or str(pathlib.Path(sys.executable).with_name("opgraft")))
PYRIGHT = ROOT / ".venv-docs" / "bin" / "pyright"
WRONG = '''\
import opgraft

opgraft.load(3)
number: int = opgraft.__version__
'''
STUBBED = '''\
#include <opgraft/op.h>
static const og_op ops[] = {
    {.schema = "softcap(Tensor x, float cap=30.0, *, Tensor? b=None) -> Tensor",
     .shape = "x[*N], b?[*N] -> [*N]", .row = "y = cap * tanh(x / cap); y = y + b"},
};
OG_MODULE(softcap, ops)
'''
STUB = '''\
class Softcap(opgraft.Module):
    def softcap(self, x: torch.Tensor, cap: float = ..., *, \
b: torch.Tensor | None = ...) -> torch.Tensor: ...
'''
USES_STUB = '''\
from __future__ import annotations

from typing import TYPE_CHECKING, cast

import torch

import opgraft

if TYPE_CHECKING:
    from softcap import Softcap
m = cast("Softcap", opgraft.load("softcap.so"))
y: torch.Tensor = m.softcap(torch.zeros(3), cap=1)
m.softcap(torch.zeros(3), cap="1")
other = opgraft.load("other.so")
other.anything(1)
'''


def mypy(*files: pathlib.Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", "mypy.ini",
         "--cache-dir", "/dev/null", *map(str, files)],
        cwd=FOLDER, text=True, capture_output=True)


@pytest.mark.full
def test_mypy_strict() -> None:
    done = mypy(*sorted(FOLDER.glob("user_*.py")))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.full
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


@pytest.mark.full
def test_stub(tmp_path: pathlib.Path) -> None:
    """`opgraft inspect --stub`: both checkers know m.softcap and its types."""
    (tmp_path / "softcap.c").write_text(STUBBED)
    (tmp_path / "user.py").write_text(USES_STUB)
    stub = subprocess.run([PROGRAM, "inspect", "softcap.c", "--stub"],
                          cwd=tmp_path, text=True, capture_output=True).stdout
    assert STUB in stub
    (tmp_path / "softcap.pyi").write_text(stub)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", str(FOLDER / "mypy.ini"),
         "--cache-dir", "/dev/null", "user.py"],
        cwd=tmp_path, text=True, capture_output=True)
    errors = [line for line in done.stdout.splitlines() if ": error:" in line]
    assert len(errors) == 1 and errors[0].startswith("user.py:13:"), done.stdout
    assert "[arg-type]" in errors[0]
    if PYRIGHT.exists():
        done = subprocess.run([str(PYRIGHT), "--outputjson", "--pythonpath",
                               sys.executable, "user.py"],
                              cwd=tmp_path, text=True, capture_output=True)
        assert [(d["range"]["start"]["line"], d["rule"])
                for d in json.loads(done.stdout)["generalDiagnostics"]
                if d["severity"] == "error"] == [(12, "reportArgumentType")]
