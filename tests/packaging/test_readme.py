# SPDX-License-Identifier: Apache-2.0
"""README's examples run as they stand, its figures are those of docs/results,
and it stays short."""

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
README = (ROOT / "README.md").read_text()


def opgraft_program(*words: str, cwd: pathlib.Path) -> str:
    program = pathlib.Path(sys.executable).parent / "opgraft"
    done = subprocess.run([str(program), *words], cwd=cwd, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    """With softcap.c, built."""
    code = re.search(r"```c\n(.*?)```", README, re.S)
    assert code is not None
    (tmp_path / "softcap.c").write_text(code[1])
    opgraft_program("build", "softcap.c", cwd=tmp_path)
    return tmp_path


def test_example(folder: pathlib.Path) -> None:
    assert "0 findings" in opgraft_program("check", "softcap.so", cwd=folder)
    softcap = opgraft.load(folder / "softcap.so").softcap
    x = torch.linspace(-200, 200, 41, requires_grad=True)
    for cap in (5.0, 30.0):
        y, expected = softcap(x, cap), cap * torch.tanh(x / cap)
        torch.testing.assert_close(y, expected)
        torch.testing.assert_close(torch.autograd.grad(y.sum(), x),
                                   torch.autograd.grad(expected.sum(), x))


def test_the_start_page_has_the_same_operator() -> None:
    page = (ROOT / "docs" / "start.md").read_text()
    code = re.search(r"```c\n(.*?)```", README, re.S)
    assert code is not None and f"```c softcap.c\n{code[1]}```" in page


def test_python_examples(
    folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As they stand, one after the other."""
    monkeypatch.chdir(folder)
    space: dict[str, object] = {}
    blocks = re.findall(r"```python\n(.*?)```", README, re.S)
    assert len(blocks) == 2
    for block in blocks:
        exec(compile(block, "README.md", "exec"), space)
    assert "0 fallbacks" in capsys.readouterr().out
    given = torch.randn(8, 64)
    numpy.save("x.npy", given.numpy())
    opgraft_program("run", "model.og", "--in", "x.npy", "--out", "y.npy",
                    cwd=folder)
    model = space["model"]
    assert isinstance(model, torch.nn.Module)
    torch.testing.assert_close(torch.from_numpy(numpy.load("y.npy")),
                               model(given).detach())


def test_figures_and_pictures() -> None:
    done = subprocess.run([sys.executable, "tools/pictures.py", "--check"],
                          cwd=ROOT, text=True, capture_output=True)
    assert done.returncode == 0, done.stdout


def test_it_is_short() -> None:
    assert len(README.splitlines()) < 150


def test_links_lead_to_files() -> None:
    for name in re.findall(r"\]\((?!http)([^)#]+)", README):
        assert (ROOT / name).exists(), name
