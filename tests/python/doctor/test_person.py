# SPDX-License-Identifier: Apache-2.0
"""doctor as a person reads it: a script with four faults, on an idle machine
and on a busy one."""

from __future__ import annotations

import contextlib
import io
import json
import multiprocessing
import os
import re
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from steady import steady

from opgraft.doctor import _guards, _propose, _verify

HERE = Path(__file__).parent
SCRIPT = HERE / "six_steps.py"
BUDGET_S = 20
# Of processor time, whatever else the machine does, beside what the compiler
# took in the script's own run: a C++ compiler's time is the machine's.
WHOLE_S = 60


def line_of(mark: str) -> int:
    lines = SCRIPT.read_text().splitlines()
    return next(i for i, text in enumerate(lines, 1)
                if text.endswith(f"# root: {mark}"))


def doctor(folder: Path, *words: str, script: Path = SCRIPT,
           **environment: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "opgraft.doctor", "--events", "run.events",
         "--json", "report.json", *words, str(script)], cwd=folder,
        capture_output=True, text=True,
        env={**os.environ, "NO_COLOR": "1", **environment})
    assert done.returncode == 0, done.stderr
    return done


def children_s() -> float:
    """Processor time of children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def plain_ms() -> float:
    """A step, timed plainly: the middle of blocks, as doctor's figure is the
    middle of its turns. The least is up to a fifth less in one process."""
    sys.path.insert(0, str(HERE))
    try:
        from six_steps import Model
    finally:
        sys.path.remove(str(HERE))
    model, x = Model(), torch.randn(64 + 8 * 5, 256)
    blocks = []
    with torch.no_grad(), contextlib.redirect_stdout(io.StringIO()):
        for _ in range(60):
            begin = time.perf_counter()
            for _ in range(10):
                model(x)
            blocks.append((time.perf_counter() - begin) / 10 * 1e3)
    return statistics.median(blocks)


class Seen:
    def __init__(self, folder: Path) -> None:
        before = plain_ms()
        begin = children_s()
        done = doctor(folder, "--budget", str(BUDGET_S))
        whole_s = children_s() - begin
        self.plain_ms = before, plain_ms()
        self.errors = done.stderr
        self.data: dict[str, Any] = json.loads(
            (folder / "report.json").read_text())
        compile_ = self.data["compile"]
        self.seconds = whole_s - compile_["dynamo_s"] - compile_["backend_s"]
        self.text = text_of(folder)

    @property
    def roots(self) -> list[dict[str, Any]]:
        return self.data["roots"]

    def root(self, mark: str, stage: str = "dynamo") -> dict[str, Any]:
        found, = [r for r in self.roots if r["line"] == line_of(mark)
                  and r["stage"] == stage]
        return found


def text_of(folder: Path) -> str:
    from opgraft.doctor._run import program

    return subprocess.run([program(), "report", str(folder / "run.events")],
                          capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    return Seen(tmp_path_factory.mktemp("person"))


@pytest.mark.full
def test_each_cause_is_one_root(seen: Seen) -> None:
    """The counter makes two frames compile again, five times each; the
    products of matrices are not roots."""
    assert seen.root("item")["id"] == "GB0124"
    assert seen.root("print")["id"] == "GB0059"
    assert {r["stage"] for r in seen.roots} <= {"dynamo", "recompile"}
    assert seen.data["graphs"]["externs"] > 0
    about = [r for r in seen.roots if "self.n" in r["title"]]
    assert [r["line"] for r in about] == [line_of("counter")]


def test_the_guard_and_its_cost_are_shown(seen: Seen) -> None:
    root = seen.root("counter", "recompile")
    assert re.fullmatch(r"guard failed: self\.n == \d+ "
                        r"\(an int attribute that changes\)", root["title"])
    assert root["title"] in seen.text
    assert root["cold_s"] > 0 and root["hits"] >= 5
    shown = seen.text[seen.text.index(root["title"]):].splitlines()[1]
    assert "cold 0 ns" not in shown, shown


def test_the_whole_run_is_short(seen: Seen) -> None:
    assert seen.seconds < WHOLE_S, seen.data["compile"]


COUNTER = """\
import torch


class Counter(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.n = 0

    def forward(self, x):
        self.n += 1
        return (x.sin() + self.n).relu()


model = torch.compile(Counter(), backend="aot_eager")
with torch.no_grad():
    for _ in range(5):
        model(torch.ones(64, 64))
"""


@pytest.mark.full
def test_the_counter_has_a_fix(tmp_path: Path) -> None:
    (tmp_path / "counter.py").write_text(COUNTER)
    done = doctor(tmp_path, "--runs", "3", "--budget", "600",
                  script=tmp_path / "counter.py", **steady())
    root, = json.loads((tmp_path / "report.json").read_text())["roots"]
    assert root["stage"] == "recompile" and root["hits"] == 4
    fix = root["fix"]
    assert "allow_unspec_int_on_nn_module" in fix["title"] \
        or "keep self.n in a tensor" in fix["title"]
    assert "the results are the same, and " in fix["text"], fix
    assert fix["status"] == "verified"
    assert re.search(r"opgraft doctor: \d+ s: trying counter.py:\d+: ",
                     done.stderr)


def test_verifying_is_bounded_and_says_so(seen: Seen) -> None:
    """A busy machine may take all of it for the script's first run."""
    assert f"in {BUDGET_S} s at most (--budget; --no-verify" in seen.errors
    times = [int(t) for t in re.findall(r"opgraft doctor: (\d+) s: ",
                                        seen.errors)]
    assert times == sorted(times) and times[-1] <= BUDGET_S


@pytest.mark.full
def test_a_small_budget_leaves_roots_proposed(tmp_path: Path) -> None:
    (tmp_path / "counter.py").write_text(COUNTER)
    begin = time.monotonic()
    done = doctor(tmp_path, "--runs", "0", "--budget", "0.5",
                  script=tmp_path / "counter.py")
    assert time.monotonic() - begin < 300
    report = json.loads((tmp_path / "report.json").read_text())
    assert {r["fix"]["status"] for r in report["roots"]} == {"proposed"}
    assert done.stdout.splitlines()[-1].endswith(
        "the time of --budget was used up, a larger one tries more") or (
        "longer than the 0 s of --budget" in done.stdout)
    assert "in 0 s at most" in done.stderr


def without_compiler(folder: Path) -> Path:
    """The script with a backend that is quick on a busy machine, too."""
    script = folder / "quick.py"
    script.write_text(SCRIPT.read_text().replace(
        "torch.compile(Model())",
        'torch.compile(Model(), backend="aot_eager")'))
    return script


@pytest.mark.timing
def test_eager_is_what_it_is(seen: Seen, tmp_path: Path) -> None:
    """Within a fifth of plain timings before and after the run, in one of
    three attempts that could tell: a processor's clock may change between them.
    An attempt in which the machine did not let one tell says nothing, and there
    are six at most."""
    told: list[float] = []
    verdict, plain = seen.data["verdict"], seen.plain_ms
    for attempt in range(6):
        if attempt > 0:
            before = plain_ms()
            doctor(tmp_path, "--no-verify", script=without_compiler(tmp_path))
            report = json.loads((tmp_path / "report.json").read_text())
            verdict, plain = report["verdict"], (before, plain_ms())
        if not verdict["is_too_noisy"] and max(plain) < 1.1 * min(plain):
            told.append(2 * verdict["eager_ms"] / sum(plain))
            if 0.8 < told[-1] < 1.2:
                return
        if len(told) == 3:
            break
    if len(told) < 3:
        pytest.skip("the machine was too busy to time a step: "
                    f"{told}, {plain} ms, {verdict}")
    pytest.fail(f"eager is {told} of plain timings; the last: {verdict}, "
                f"{plain} ms")


@contextlib.contextmanager
def busy() -> Iterator[None]:
    """A loop on each processor."""
    children = [multiprocessing.get_context("fork").Process(
        target=_spin, daemon=True) for _ in range(os.cpu_count() or 1)]
    for child in children:
        child.start()
    try:
        yield
    finally:
        for child in children:
            child.kill()
            child.join()


def _spin() -> None:
    while True:
        pass


@pytest.mark.timing
def test_a_busy_machine_is_too_noisy(tmp_path: Path) -> None:
    script = without_compiler(tmp_path)
    with busy():
        doctor(tmp_path, "--no-verify", "--runs", "4", script=script)
    report = json.loads((tmp_path / "report.json").read_text())
    verdict = report["verdict"]
    assert verdict["is_too_noisy"] and not verdict["is_net_loss"], verdict
    text = text_of(tmp_path)
    assert "a step: too noisy: " in text and "net loss" not in text
    assert " +- " in text  # the spread


def test_a_verdict_outlasts_the_budget() -> None:
    """What a later round had no time for keeps what an earlier one found."""
    root = _propose.Root("m.py", 3, "GB0000", "dynamo", "f", "", "",
                         ("m.py", 3, "", 0))
    proposal = _propose.Proposal("rewrite", "a title", {})
    refuted = _verify.Verdict("refuted", "the root is still there")
    late = _verify.Verdict("proposed", _verify._UNTRIED)
    verdicts = [refuted, late, late]
    lines: list[_verify.Verdict] = []

    class Search(_verify.Search):
        def _observe(self, roots: list[Any]) -> None:
            raise AssertionError("there is no time left")

        def _moved(self, root: Any) -> Any:
            return root

        def _fix(self, *_: Any) -> Any:
            return proposal, verdicts.pop(0)

        def _line(self, root: Any, proposal: Any, verdict: Any) -> None:
            lines.append(verdict)

    search = Search(Path("events"), "m.py", [], 1, 0.0)
    search._left = [root]
    search._rounds()
    assert lines == [refuted]


@pytest.mark.parametrize("reason, condition, subject, meaning", [
    ("0/0: self.n == 3    # return x * self.n  # m.py:12 in forward",
     "self.n == 3", "self.n", "an int attribute that changes"),
    ("1/2: tensor 'x' size mismatch at index 0. expected 4, actual 5",
     "tensor 'x' size mismatch at index 0. expected 4, actual 5", "x",
     "the size of a tensor changes"),
    ("1/2: tensor 'batch['x']' size mismatch at index 0. expected 4, actual 5",
     "tensor 'batch['x']' size mismatch at index 0. expected 4, actual 5",
     "batch['x']", "the size of a tensor changes"),
    ("0/0: x.size()[0] == 4  # m.py:3 in f", "x.size()[0] == 4", "x",
     "the size of a tensor changes"),
    ("0/0: 2 <= batch['x'].stride()[0]", "2 <= batch['x'].stride()[0]",
     "batch['x']", "the stride of a tensor changes"),
    ("0/1: len(keys) == 2  # for key in keys  # m.py:8 in attend",
     "len(keys) == 2", "keys", "a length that changes"),
    ("0/0: ___check_obj_id(fn, 140123), type=<class 'function'>  # fn(y)",
     "fn is the object that was compiled for", "fn",
     "another one comes each time"),
    ("0/0: G['SETTINGS']['t'] == 1.5", "G['SETTINGS']['t'] == 1.5",
     "G['SETTINGS']['t']", "a float global that changes"),
    ("0/0: mode == 'sum'", "mode == 'sum'", "mode",
     "an argument that changes"),
    ("0/0: self.training == True", "self.training == True", "self.training",
     "a flag attribute that changes"),
    ("0/0: f.__closure__[0].cell_contents == 0.5  # return t * slope  # m.py:"
     "13 in <lambda> (HINT: guard on \"slope\")", "slope of a closure == 0.5",
     "slope of a closure", "a float value in a closure that changes"),
    ("no such form", "no such form", "no such form", ""),
])
def test_guards(reason: str, condition: str, subject: str, meaning: str
                ) -> None:
    assert _guards.plain(reason) == condition
    assert _guards.subject(condition) == subject
    assert _guards.meaning(condition) == meaning
