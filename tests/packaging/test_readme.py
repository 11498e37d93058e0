# SPDX-License-Identifier: Apache-2.0
"""README's examples build, are right by `check`, and do what they say."""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys

import numpy
import pytest
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


def test_python_examples(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As they stand, one after the other."""
    readme = (ROOT / "README.md").read_text()
    code = re.search(r"```c\n(.*?)```", readme, re.S)
    assert code is not None
    (tmp_path / "scale.c").write_text(code[1])
    opgraft_program("build", "scale.c", cwd=tmp_path)
    monkeypatch.chdir(tmp_path)
    space: dict[str, object] = {
        "x": torch.randn(4, 6, requires_grad=True),
        "weight": torch.randn(6, requires_grad=True)}
    blocks = re.findall(r"```python\n(.*?)```", readme, re.S)
    assert len(blocks) >= 4
    for block in blocks:
        exec(compile(block, "README.md", "exec"), space)
    assert "0 fallbacks" in capsys.readouterr().out
    given = torch.randn(8, 64)
    numpy.save("x.npy", given.numpy())
    opgraft_program("run", "model.og", "--in", "x.npy", "--out", "y.npy",
                    cwd=tmp_path)
    frozen = space["frozen"]
    assert callable(frozen)
    torch.testing.assert_close(torch.from_numpy(numpy.load("y.npy")),
                               frozen(given))
    z = space["z"]
    assert isinstance(z, torch.Tensor) and z.shape == (3,)
