# SPDX-License-Identifier: Apache-2.0
"""README's example builds, is right by `check`, and does what it says."""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys

import torch

import opgraft

ROOT = pathlib.Path(__file__).resolve().parents[2]


def opgraft_program(*words: str, cwd: pathlib.Path) -> str:
    program = pathlib.Path(sys.executable).parent / "opgraft"
    done = subprocess.run([str(program), *words], cwd=cwd, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_example(tmp_path: pathlib.Path) -> None:
    readme = (ROOT / "README.md").read_text()
    code = re.search(r"```c\n(.*?)```", readme, re.S)
    assert code is not None and len(code[1].splitlines()) <= 35
    (tmp_path / "scale.c").write_text(code[1])
    opgraft_program("build", "scale.c", cwd=tmp_path)
    assert "0 findings" in opgraft_program("check", "scale.so", cwd=tmp_path)

    scale = opgraft.load(tmp_path / "scale.so").scale
    x = torch.randn(4, 5, 6, requires_grad=True)
    weight = torch.randn(6, requires_grad=True)
    for run in (lambda x, w: scale(x, w).sin(),
                torch.compile(lambda x, w: scale(x, w).sin(), fullgraph=True,
                              backend="aot_eager")):
        y = run(x, weight)
        wanted = (x * weight).sin()
        torch.testing.assert_close(y, wanted)
        torch.testing.assert_close(
            torch.autograd.grad(y.sum(), (x, weight)),
            torch.autograd.grad(wanted.sum(), (x, weight)))
