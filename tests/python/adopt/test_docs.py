# SPDX-License-Identifier: Apache-2.0
"""The pages of adoption: every example runs as it stands, one after the other."""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys
import sysconfig

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
PAGES = ("adopt", "adopt-python", "adopt-c", "adopt-errors")
TEXTS = {name: (ROOT / f"docs/{name}.md").read_text() for name in PAGES}
TEXT = "\n".join(TEXTS.values())


def build(folder: pathlib.Path) -> None:
    """The C and C++ files that the page shows."""
    pybind11 = pytest.importorskip("pybind11")
    for kind in ("c", "cpp"):
        for code in re.findall(rf"```{kind}\n(.*?)```", TEXT, re.S):
            name = re.match(r"// ([\w.]+)", code)
            assert name is not None
            (folder / name[1]).write_text(code)
    subprocess.run(["cc", "-shared", "-fPIC", "kernels.c", "-o",
                    "libkernels.so"], check=True, cwd=folder)
    subprocess.run(
        ["c++", "-std=c++17", "-shared", "-fPIC", "ext.cpp", "-o", "ext.so",
         f"-I{pybind11.get_include()}",
         f"-I{sysconfig.get_paths()['include']}"], check=True, cwd=folder)


@pytest.mark.full
def test_every_example(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in ("cffi", "numba", "scipy", "tvm_ffi"):
        pytest.importorskip(package)
    build(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "ext", raising=False)
    space: dict[str, object] = {"__name__": "adopt_md"}
    assert len(re.findall(r"```python\n", TEXT)) >= 19
    for name, text in TEXTS.items():
        for found in re.finditer(r"```python\n(.*?)```", text, re.S):
            line = text[:found.start(1)].count("\n")
            exec(compile("\n" * line + found[1], f"docs/{name}.md", "exec"),
                 space)


def test_paragraphs_are_short() -> None:
    """Of text: at most five lines of 120 characters."""
    prose = re.sub(r"```.*?```", "", TEXT, flags=re.S)
    for part in prose.split("\n\n"):
        if not part.lstrip().startswith(("|", "    ", "#")):
            assert len(part) <= 600, part
