# SPDX-License-Identifier: Apache-2.0
"""tools/contracts.py refuses a contract that nothing holds, and a line of its
table that names what is not there."""

from __future__ import annotations

import pathlib
import subprocess
import types

import pytest
from test_tools import ROOT, load

HEADER = """\
// SPDX-License-Identifier: Apache-2.0
// A list. Its items must differ; the list owns them.

// --- Use ------------------------------------------------------------------

// The name outlives the list. Returns how many there are.
int list_count(void);
"""
TABLE = """\
src/list.h
  must differ: tests/unit/list.c items_differ
  outlives the list: src/list.c name != NULL
"""


@pytest.fixture
def tool(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
         ) -> types.ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    module = load("tools/contracts.py")
    for name, text in {
            "src/list.h": HEADER, "src/list.c": "static_assert(name != NULL);\n",
            "tests/unit/list.c": "TEST(items_differ) {}\n",
            "tools/contracts.txt": TABLE}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    subprocess.run(["git", "init", "-q", "."], cwd=tmp_path, check=True)
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module.comments, "ROOT", tmp_path)
    monkeypatch.setattr(module, "TABLE", tmp_path / "tools" / "contracts.txt")
    return module


def problems(tool: types.ModuleType) -> list[str]:
    found: list[str] = tool.problems(tool.contracts(), tool.table())
    return found


def test_sentences_are_found(tool: types.ModuleType) -> None:
    assert tool.contracts() == {"src/list.h": [
        "Its items must differ;", "The name outlives the list."]}
    assert problems(tool) == []


@pytest.mark.parametrize(("old", "new", "said"), [
    ("  must differ: tests/unit/list.c items_differ\n", "",
     "nothing holds 'Its items must differ;'"),
    ("must differ", "must agree", "fits 0 contracts"),
    ("items_differ", "items_agree", "no test or assertion 'items_agree'"),
    ("name != NULL", "name == NULL", "no test or assertion 'name == NULL'"),
    ("src/list.c name", "src/gone.c name", "src/gone.c has no test"),
])
def test_a_wrong_table_is_refused(tool: types.ModuleType, old: str, new: str,
                                  said: str) -> None:
    assert old in TABLE
    tool.TABLE.write_text(TABLE.replace(old, new))
    assert any(said in problem for problem in problems(tool))


def test_a_line_of_another_form_is_refused(tool: types.ModuleType) -> None:
    tool.TABLE.write_text("src/list.h\n  must differ\n")
    with pytest.raises(SystemExit, match="contracts.txt:2: expected"):
        tool.table()
