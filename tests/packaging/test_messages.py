# SPDX-License-Identifier: Apache-2.0
"""tools/messages.py lists what is printed, and finds the forms that it must."""

from __future__ import annotations

import json
import pathlib
import re
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
            "tests/t.py": 'assert "expected a one" in text\n'}.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    subprocess.run(["git", "init", "-q", "."], cwd=tmp_path, check=True)
    monkeypatch.setattr(module, "ROOT", tmp_path)
    return module


def test_the_list_has_kind_place_and_pin(tool: types.ModuleType) -> None:
    tests = tool.test_texts()
    found = [(m.place, m.kind, tool.pinned_by(m, tests), m.text)
             for m in tool.messages(("src", "python"))]
    assert found == [
        ("python/b.py:3", "help", "none", "the help of an option"),
        ("python/b.py:4", "error", "none", "found {}, expected {} of them"),
        ("src/a.c:8", "error", "tests/t.py", "n is %d, expected a one"),
        ("src/a.c:11", "error", "none", "this text is wanted here"),
        ("src/a.c:12", "note", "none", "a note of two words"),
        ("src/a.c:13", "text", "none", "a line of a report, %d long"),
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


@pytest.mark.parametrize("name, fields", [
    ("messages_sample", {"place", "kind", "cause", "before"}),
    ("comments_sample", {"place", "before"})])
def test_samples_were_read(name: str, fields: set[str]) -> None:
    """Sixty each, the rewritten ones with what they became."""
    kept = json.loads((ROOT / "docs/results" / f"{name}.json").read_text())
    assert len(kept["rows"]) == 60 and isinstance(kept["seed"], int)
    for row in kept["rows"]:
        assert fields <= {k for k, v in row.items() if v}, row
        assert (ROOT / row["place"].split(":")[0]).exists(), row
        assert row.get("after", "") != row["before"], row


def test_a_sample_is_the_seed_s(tool: types.ModuleType,
                                monkeypatch: pytest.MonkeyPatch,
                                capsys: pytest.CaptureFixture[str]) -> None:
    def drawn(seed: str) -> str:
        monkeypatch.setattr("sys.argv", ["messages.py", "--sample", "3",
                                         "--seed", seed, "src", "python"])
        assert tool.main() == 0
        return capsys.readouterr().out
    assert drawn("1") == drawn("1")
    assert len({drawn(str(seed)) for seed in range(8)}) > 1
    assert "a line of a report" not in drawn("1")  # neither error nor help


def test_each_reason_fits_a_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of tools/unpinned.txt: what became of none goes away."""
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    real = load("tools/messages.py")
    texts = [real.plain(m.text) for m in real.messages(real.PRODUCT)]
    found = real.reasons()
    assert found
    for reason, pattern in found:
        assert reason and any(map(pattern.search, texts)), pattern.pattern


def test_whole_texts_pin_where_pieces_are_short(
        tool: types.ModuleType) -> None:
    message = tool.Message("src/a.c:1", "error", "%d of %d, expected %s")
    tests = {"tests/a.txt": "3 of 4, expected five"}
    assert tool.pinned_by(message, tests) == "tests/a.txt"
    assert tool.pinned_by(message, {"tests/a.txt": "3 of 4\nor"}) == "none"
    assert re.match(r"\(memory", tool.pinned_by(
        tool.Message("src/a.c:1", "error", "out of memory"), {}))


@pytest.mark.parametrize(("text", "is_wrong"), [
    ("plan: expected a dict", True), ("x is f64, expected f32", False),
    ("found %s, expected a size", False), ("no file is given, expected one", False),
    ("could not open it", False), ("expected a shorter rule", False),
])
def test_an_error_says_what_was_found(
        monkeypatch: pytest.MonkeyPatch, text: str, is_wrong: bool) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    assert load("tools/messages.py").is_one_sided(text) == is_wrong
