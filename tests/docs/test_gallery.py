# SPDX-License-Identifier: Apache-2.0
"""tools/gallery.py compares what it must and no more; the page shows every
example; tools/notebook.py runs cells in order and sees what they show. The
examples themselves run in `make docs`."""

from __future__ import annotations

import json
import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import gallery  # noqa: E402
import notebook  # noqa: E402

# Shown elsewhere: programs for one host, or for several processes, which tests
# of their own run; the operator of a scene of the demo.
ELSEWHERE = {"aoti", "custom_linear", "onnxruntime", "tvm_ffi",
             "tensor_parallel"}


def test_the_page_shows_every_example() -> None:
    folders = {p.name for p in (ROOT / "examples").iterdir()
               if p.is_dir() and p.name != "__pycache__"}
    assert {e.name for e in gallery.LIST} == folders - ELSEWHERE
    shown = gallery.recorded()
    assert {e.name for e in gallery.LIST} == set(shown)
    assert all(len(text) > 40 for text in shown.values())
    assert gallery.page(shown) == gallery.PAGE.read_text()


@pytest.mark.parametrize(("one", "two", "only_words", "is_same"), [
    ("eager a\n", "eager   a\n", False, True),
    ("3 graphs", "2 graphs", False, False),
    ("┃ loss ┃ 0.12 ┃", "┃ loss   ┃ 0.1234 ┃", True, True),
    ("loss 0.12", "accuracy 0.12", True, False),
    ("y: 1.5", "y: 2.5", False, False),
])
def test_what_is_compared(one: str, two: str, only_words: bool,
                          is_same: bool) -> None:
    assert (gallery.fixed(one, only_words)
            == gallery.fixed(two, only_words)) is is_same


def test_times_are_left_out() -> None:
    demo = next(e for e in gallery.LIST if e.name == "demo")
    assert gallery.without_times("eager  320.4 us, 37 tokens/s, 3 graphs",
                                 "$^") == "eager  … us, … tokens/s, 3 graphs"
    assert gallery.without_times("277 -> 125 us, 2.2 times as fast",
                                 demo.times) == "…   -> … us, …   times as fast"


def made(*sources: str) -> dict:
    return {"cells": [{"cell_type": "code", "source": [s], "outputs": []}
                      for s in sources], "nbformat": 4, "nbformat_minor": 4}


def test_a_notebook_shows_what_it_did(
        tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str]) -> None:
    class Table:
        def _repr_html_(self) -> str:
            return "<table></table>"

        def __repr__(self) -> str:
            return "a table"

    done = notebook.run(made("x = 2\nprint('hi')", "x + 1", "x;"))
    assert [notebook.text_of(c) for c in done["cells"]] == ["hi\n", "3", ""]
    assert notebook.shown(Table()) == {"text/plain": ["a table"],
                                       "text/html": ["<table></table>"]}
    assert notebook.differences(done, done) == []
    assert len(notebook.differences(
        done, notebook.run(made("print('hi')", "4", "5;")))) == 1
    with pytest.raises(NameError):
        notebook.run(made("y"))
    path = tmp_path / "n.ipynb"
    path.write_text(json.dumps(made("3")))
    monkeypatch.setattr(sys, "argv", ["notebook.py", str(path), "--write"])
    assert notebook.main() == 0
    monkeypatch.setattr(sys, "argv", ["notebook.py", str(path)])
    assert notebook.main() == 0
    path.write_text(path.read_text().replace('"3"', '"4"', 1))
    assert notebook.main() == 1
    assert "shows" in capsys.readouterr().out


def test_times_are_not_compared() -> None:
    assert (notebook.without_times("backend 0.83 ms, 4 nodes")
            == notebook.without_times("backend 12 ms, 4 nodes")
            != notebook.without_times("backend 12 ms, 5 nodes"))
