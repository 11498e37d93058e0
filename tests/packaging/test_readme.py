# SPDX-License-Identifier: Apache-2.0
"""README's examples run as they stand, its figures are those of docs/results,
and it stays short."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys
import time

import numpy
import pytest
import torch

import opgraft

ROOT = pathlib.Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
START = (ROOT / "docs" / "start.md").read_text()
CHINESE = (ROOT / "README.zh.md").read_text()


def opgraft_program(*words: str, cwd: pathlib.Path) -> str:
    program = pathlib.Path(sys.executable).parent / "opgraft"
    done = subprocess.run([str(program), *words], cwd=cwd, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    """With softcap.c of the start page, built."""
    code = re.search(r"```c softcap.c\n(.*?)```", START, re.S)
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
    code = re.search(r"```c\n(.*?)```", README, re.S)
    assert code is not None and f"{code[1]}```" in START


def test_python_examples(
    folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As they stand, one after the other."""
    monkeypatch.chdir(folder)
    space: dict[str, object] = {}
    blocks = re.findall(r"```python\n(.*?)```", README, re.S)
    assert len(blocks) == 3
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
    assert len(README.splitlines()) < 160


@pytest.mark.parametrize("text", [README, CHINESE], ids=["english", "chinese"])
def test_links_lead_to_files(text: str) -> None:
    for name in re.findall(r"\]\((?!http)([^)#]+)", text):
        assert (ROOT / name).exists(), name


def test_the_chinese_one_has_the_same_commands_and_code() -> None:
    """Blocks and headings one for one; of the text, each command that is named."""
    def parts(text: str, pattern: str) -> list[str]:
        return re.findall(pattern, text, re.S | re.M)

    blocks = r"^```\w+\n.*?^```$"
    assert parts(README, blocks) == parts(CHINESE, blocks)
    commands = r"(?<!`)`((?:opgraft|pip|make|apt-get) [^`]+)`"
    bench = {"make bench"}  # of the table of figures, which is in one of them
    assert set(parts(README, commands)) - bench == set(parts(CHINESE, commands))
    assert len(parts(README, r"^## ")) == len(parts(CHINESE, r"^## ")) + 1


@pytest.mark.timing
@pytest.mark.timeout(3600)
def test_first_commands_in_a_new_clone(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str],
) -> None:
    """The first command, as it stands, with a home of its own; then again."""
    shell = re.search(r"```sh\n(make demo)\b", README)
    assert shell is not None
    clone, home = tmp_path / "opgraft", tmp_path / "home"
    home.mkdir()
    subprocess.run(["git", "clone", "--quiet", "--depth", "1",
                    ROOT.as_uri(), clone], check=True)
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8",
           "TORCHINDUCTOR_CACHE_DIR": str(home / "inductor"),
           **{n: v for n, v in os.environ.items() if n.startswith("PIP_")}}
    seconds = []
    for _ in range(2):
        begin = time.monotonic()
        done = subprocess.run(["sh", "-e", "-c", shell[1]], cwd=clone, env=env,
                              text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)
        assert done.returncode == 0, done.stdout
        assert "5 scenes in" in done.stdout
        seconds.append(time.monotonic() - begin)
    size = sum(p.stat().st_size for p in clone.rglob("*") if p.is_file())
    with capsys.disabled():
        print(f"\nmake demo: {seconds[0]:.0f} s with set-up, {seconds[1]:.0f} s "
              f"afterwards; {size >> 20} MiB")
    assert seconds[0] <= 240 and seconds[1] <= 60
