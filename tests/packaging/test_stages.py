# SPDX-License-Identifier: Apache-2.0
"""tools/stages.py: which stages a landing runs, and what they may read."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import results  # noqa: E402
import run_tests  # noqa: E402
import stages  # noqa: E402

DEF = """\
[sets]
c = a.c
[implies]
c.py = b.c
[one]
run = cat a.c > log; echo 3 passed, 0 failed
reads = @c
[two]
run = cat b.c c.py > log; echo 2 passed, 0 failed
reads = b.c c.py
cores = 1
[three]
run = echo nothing is counted
reads = d*.c
"""


@pytest.fixture
def tree(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
         ) -> pathlib.Path:
    """A tree under git with three stages."""
    for name in ("a.c", "b.c", "c.py", "d1.c", "d2.c"):
        (tmp_path / name).write_text(name)
    (tmp_path / "build").mkdir()
    (tmp_path / "Makefile").write_text("thing:\n\ttrue\nbroken:\n\tfalse\n")
    (tmp_path / ".ci").mkdir()
    (tmp_path / ".ci/stages.def").write_text(DEF)
    for words in (["init", "-q"], ["add", "."]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    monkeypatch.setattr(stages, "ROOT", tmp_path)
    monkeypatch.setattr(stages, "TABLE", tmp_path / ".ci/stages.def")
    monkeypatch.setattr(stages, "RECORDS", tmp_path / "nightly.json")
    monkeypatch.setattr(stages, "FOUND", tmp_path / "build/stages.json")
    return tmp_path


def run(monkeypatch: pytest.MonkeyPatch, *words: object) -> int:
    monkeypatch.setattr(sys, "argv", ["stages.py", "--reads", *map(str, words)])
    return stages.main()


def why(tree: pathlib.Path) -> dict[str, str]:
    rows, _ = stages.read_table()
    return stages.choose(rows, stages.read_records())


def test_a_landing_skips_what_is_green(
        tree: pathlib.Path, monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch) == 0
    assert capsys.readouterr().out.endswith("6 passed, 0 failed\n")
    assert run(monkeypatch, "--record", stages.FOUND) == 0
    # Nothing changed: one stage runs, in rotation, the longest unseen first.
    assert sorted(why(tree).values()) == ["", "", "in rotation"]
    (tree / "a.c").write_text("changed")
    (tree / "d2.c").write_text("changed")
    assert why(tree) == {"one": "changed", "two": "in rotation",
                         "three": "changed"}


def test_every_stage_runs_within_ten_landings(
        tree: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(monkeypatch) == 0
    run(monkeypatch, "--record", stages.FOUND)
    last = dict.fromkeys(("one", "two", "three"), 0)
    for landing in range(1, 20):
        assert run(monkeypatch) == 0
        for name in json.loads(stages.FOUND.read_text())["stages"]:
            last[name] = landing
        run(monkeypatch, "--record", stages.FOUND)
        assert all(landing - at <= stages.LANDINGS_MAX for at in last.values())
    assert min(last.values()) > 10


def test_another_machine_proves_nothing(
        tree: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(monkeypatch)
    run(monkeypatch, "--record", stages.FOUND)
    monkeypatch.setattr(results, "processor", lambda: "another")
    assert set(why(tree).values()) == {"recorded on another machine"}


@pytest.mark.parametrize("command, said", [
    ("cat a.c > log; false", "0 passed, 1 failed"),
    ("cat a.c > log; echo 4 passed, 2 failed; exit 1", "4 passed, 2 failed"),
    ("cat a.c > log; echo 4 passed, 0 failed; exit 1", "4 passed, 1 failed"),
    ("cat b.c > log; echo 4 passed, 0 failed",
     "one: .ci/stages.def does not say that it reads b.c"),
    ("cat c.py > log; echo 4 passed, 0 failed", "reads b.c, c.py"),
])
def test_a_planted_fault_fails_the_run(
        tree: pathlib.Path, monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str], command: str, said: str) -> None:
    stages.TABLE.write_text(DEF.replace(
        "cat a.c > log; echo 3 passed, 0 failed", command))
    assert run(monkeypatch, "one") == 1
    out = capsys.readouterr().out
    assert said in out
    run(monkeypatch, "--record", stages.FOUND)
    assert why(tree)["one"] == "no green is recorded"


def test_what_cannot_be_made_is_a_failure(
        tree: pathlib.Path, monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str]) -> None:
    stages.TABLE.write_text(DEF + "needs = thing broken\n")
    assert run(monkeypatch, "three") == 1
    assert "make thing broken failed" in capsys.readouterr().out


def test_a_stage_that_hangs_is_ended(
        tree: pathlib.Path, monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(stages, "STAGE_TIMEOUT_S", 0.2)
    stages.TABLE.write_text(DEF.replace("cat a.c > log;", "sleep 60 & wait;"))
    assert run(monkeypatch, "one") == 1
    assert "stopped after 0.2 s" in capsys.readouterr().out


def test_a_night_goes_on_where_it_was(
        tree: pathlib.Path, monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str]) -> None:
    stages.TABLE.write_text(DEF + "nightly = false\n")
    assert run(monkeypatch, "--nightly") == 1
    capsys.readouterr()
    stages.TABLE.write_text(DEF + "nightly = echo whole\n")
    assert run(monkeypatch, "--nightly") == 0
    out = capsys.readouterr().out
    assert "##### three begins: echo whole" in out and "one begins" not in out
    # A landing's short form proves no long one.
    assert run(monkeypatch, "--all") == 0
    run(monkeypatch, "--record", stages.FOUND)
    capsys.readouterr()
    assert run(monkeypatch, "--nightly") == 0
    out = capsys.readouterr().out
    assert "##### three begins: echo whole" in out and "one begins" not in out


def test_the_table_of_this_tree() -> None:
    """Each of its files is there, and each test runs in some stage."""
    rows, implies = stages.read_table()
    files = stages.tracked()
    for row in rows:
        for name in row.reads:
            assert any(f == name or f.startswith(name + "/") or name == "."
                       for f in files), f"{row.name} reads {name}"
    folders = {str(pathlib.Path(f).parent) for f in files
               if pathlib.Path(f).name.startswith("test_")
               and f.endswith(".py") and f.startswith("tests/")}
    ran = " ".join(row.run for row in rows) + " "
    left = {f for f in folders - {"tests/conformance"}
            if f"--folder {f} " not in ran}
    assert not left
    for row in rows:
        if not any(name == "." for name in row.reads):
            assert row.covers("Makefile"), row.name


@pytest.mark.parametrize("file, left_out", [
    ("docs/why.md", {"unit", "graph", "device", "doctor", "hosts", "isa",
                     "sanitize", "threads", "sanitize-python", "fuzz"}),
    ("hosts/jax/module.c", {"graph", "device", "doctor", "sanitize-python"}),
    ("tests/python/graph/test_first.py", {"unit", "hosts", "device", "doctor",
                                          "program", "sanitize", "fuzz"}),
])
def test_what_a_change_cannot_break_is_left_out(
        file: str, left_out: set[str]) -> None:
    rows, _ = stages.read_table()
    assert left_out <= {row.name for row in rows}
    assert not {row.name for row in rows if row.covers(file)} & left_out


def test_a_slow_machine_leaves_out_what_is_late(
        tree: pathlib.Path, monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str]) -> None:
    """Not with --all; and what was left out is not recorded."""
    command = (f"{sys.executable} {ROOT}/tools/run_tests.py --build build "
               "--folder tests/typing python; cat d1.c > log")
    stages.TABLE.write_text(DEF.replace("echo nothing is counted",
                                        f"{command}\nlate = yes"))
    monkeypatch.setattr(stages, "BUDGET_S", -1)
    assert run(monkeypatch) == 0
    out = capsys.readouterr().out
    assert f"tests/typing: {run_tests.LEFT}\n" in out and ", in part\n" in out
    run(monkeypatch, "--record", stages.FOUND)
    assert why(tree)["three"] == "no green is recorded"
    stages.TABLE.write_text(DEF.replace(
        "echo nothing is counted", "test $OPGRAFT_UNTIL = inf && echo whole"))
    assert run(monkeypatch, "--all") == 0
    assert ", in part\n" not in capsys.readouterr().out


def test_the_late_ones_take_turns(tree: pathlib.Path) -> None:
    last = set()
    for text in "abcdefgh":
        stages.TABLE.write_text(DEF.replace("reads = d", "late = yes\nreads = d")
                                .replace("cores = 1", "late = yes"))
        (tree / "a.c").write_text(text)
        rows, _ = stages.read_table()
        assert rows[0].name == "one"
        last.add(rows[-1].name)
    assert last == {"two", "three"}


def test_stages_side_by_side_share_the_cores(
        tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPGRAFT_CORES", str(stages.cores_shared(tmp_path)))
    monkeypatch.setattr(run_tests, "CORE_POLL_S", 0.001)
    busy: set[int] = set()
    seen: list[int] = []

    def one(name: int) -> None:
        with run_tests.core_taken():
            busy.add(name)
            time.sleep(0.01)
            seen.append(len(busy))
            busy.remove(name)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(one, range(40)))
    assert len(seen) == 40 and max(seen) == stages.CORES
