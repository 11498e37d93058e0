# SPDX-License-Identifier: Apache-2.0
"""tools/messages.py finds the forms and the errors that it must."""

from __future__ import annotations

import pathlib
import subprocess
import types

import pytest
from test_tools import ROOT, load

C_FILE = '''\
// A comment that is
// no riddle is one.
og_status og_error_set(opgraft_error *error, og_status code, const char *format,
                       ...) OG_PRINTF(3, 4);
#define SHORT(text) og_fail(call, OG_INVALID, text)
static og_status f(const og_call *call) {
  if (call->n != 1)
    return og_error_set(NULL, OG_INVALID, "n is %" PRId64 ", expected "
                        "a one", call->n);
  const int wanted = 3;  // a name of code in `wanted` is code
  SHORT("this text is wanted here");
  cli_note("a note of two words");
  return printf("a line of a report, %d long", wanted);
}
'''
PYTHON_FILE = '''\
"""What a module gives back."""
def f(wanted: int) -> None:
    parser.add_argument("--x", help="the help of an option")
    raise ValueError(f"found {wanted}, "
                     f"expected {wanted + 1} of them")
'''


@pytest.fixture
def tool(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
         ) -> types.ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    module = load("tools/messages.py")
    for name, text in {
            "src/a.c": C_FILE, "python/b.py": PYTHON_FILE,
            "docs/c.md": "It hands it over. `is what` is code.\n"
                         "```c\nint wanted;\n```\n```\nit is none\n```\n",
            }.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    subprocess.run(["git", "init", "-q", "."], cwd=tmp_path, check=True)
    monkeypatch.setattr(module, "ROOT", tmp_path)
    return module


def test_errors_are_known_by_who_gets_them(tool: types.ModuleType) -> None:
    assert [(m.place, m.text) for m in tool.errors()] == [
        ("python/b.py:4", "found {}, expected {} of them"),
        ("src/a.c:8", "n is %d, expected a one"),
        ("src/a.c:11", "this text is wanted here"),
    ]


def test_forms_are_found_where_people_read(
        tool: types.ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert tool.check() == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "messages: 5 forms to replace"
    assert sorted(line.split(": say")[0] for line in lines[:-1]) == [
        'docs/c.md:1: "hands it over"', 'docs/c.md:6: "is none"',
        'python/b.py:1: "gives back"', 'src/a.c:11: "wanted"',
        'src/a.c:1: "is no"']


@pytest.mark.parametrize("text, is_refused", [
    ("NULL if there is none", False), ("NULL where it is none", True),
    ("there are no dims", False), ("arguments that are no tensors", True),
    ("it is no longer there", False), ("a shape is what counts", True),
    ("x has not the shape of y", True), ("x has not been seen", False),
    ("it lets go of the lock", True), ("found 3, wanted 4", True),
    ("what is given back", True), ("it may lie so far apart", False),
    ("a result lies where x does", True),
])
def test_forms(tool: types.ModuleType, text: str, is_refused: bool) -> None:
    path = tool.ROOT / "docs" / "d.md"
    path.write_text(text + "\n")
    assert bool(list(tool.refused(path, ("page",), tool.forms()))) == is_refused


def test_subjects(tool: types.ModuleType, monkeypatch: pytest.MonkeyPatch
                  ) -> None:
    def commit(subject: str) -> None:
        subprocess.run(
            ["git", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q",
             "--allow-empty", "-m", subject], cwd=tool.ROOT, check=True)
    commit("What is wanted first")
    first = subprocess.run(["git", "rev-parse", "HEAD"], cwd=tool.ROOT, text=True,
                           capture_output=True, check=True).stdout.strip()
    monkeypatch.setattr(tool, "FIRST_COMMIT", first)
    commit("Say what is wanted")
    commit("x" * 73)
    commit("Say that x is missing")
    found = [line.split(": ", 1)[1]
             for line in tool.refused_subjects(tool.forms())]
    assert found == ["the subject has 73 characters, at most 72 expected",
                     '"wanted": say "expected"']


@pytest.mark.parametrize(("text", "is_wrong"), [
    ("plan: expected a dict", True), ("x is f64, expected f32", False),
    ("found %s, expected a size", False), ("no file is given, expected one", False),
    ("could not open it", False), ("expected a shorter rule", False),
])
def test_an_error_says_what_was_found(
        monkeypatch: pytest.MonkeyPatch, text: str, is_wrong: bool) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    assert load("tools/messages.py").is_one_sided(text) == is_wrong
