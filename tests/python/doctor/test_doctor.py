# SPDX-License-Identifier: Apache-2.0
"""doctor from the outside: a script in, a report out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import opgraft
from opgraft.doctor import _opaque, _run, _told, _trial

HERE = Path(__file__).parent


def doctor(*words: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "opgraft.doctor", *map(str, words)],
        capture_output=True, text=True, cwd=cwd,
        env={**os.environ, "NO_COLOR": "1"})


def report_of(script: Path, tmp_path: Path, *options: str) -> dict[str, Any]:
    done = doctor("--json", "report.json", "--no-verify", *options, script,
                  cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "USDT:" not in done.stderr  # of PyTorch's profiler
    return json.loads((tmp_path / "report.json").read_text())


def line_of(script: Path, mark: str) -> int:
    lines = script.read_text().splitlines()
    return next(i for i, text in enumerate(lines, 1)
                if text.endswith(f"# root: {mark}"))


@pytest.fixture(scope="module")
def five(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return report_of(HERE / "five_causes.py",
                     tmp_path_factory.mktemp("five"), "--runs", "5")


@pytest.mark.full
def test_five_causes(five: dict[str, Any]) -> None:
    script = HERE / "five_causes.py"
    found = {(r["line"], r["id"], r["stage"]) for r in five["roots"]}
    assert found == {
        (line_of(script, "break"), "GB0025", "dynamo"),
        (line_of(script, "item"), "GB0124", "dynamo"),
        (line_of(script, "loop"), "GB0170", "skip"),
        (line_of(script, "recompile"), None, "recompile"),
        (line_of(script, "fallback"), None, "backend"),
    }
    assert {Path(r["file"]).name for r in five["roots"]} == {script.name}
    assert {r["owner"] for r in five["roots"]} == {"your code"}


def test_frames_are_reconciled(five: dict[str, Any]) -> None:
    frames = five["frames"]
    assert frames["unexplained"] == 0
    assert frames["total"] == frames["compiled"] + frames["skipped"]
    assert frames["skipped"] == 1  # the loop's
    assert [s["function"] for s in five["skipped"]] == ["looped"]


def test_times_are_measured(five: dict[str, Any]) -> None:
    verdict = five["verdict"]
    assert verdict["eager_ms"] > 0 and verdict["compiled_ms"] > 0
    by_stage = {r["stage"]: r for r in five["roots"]}
    assert by_stage["recompile"]["cold_s"] > 0
    assert all(r["steady_us"] > 0 for r in five["roots"]
               if r["stage"] == "dynamo")
    assert five["fallbacks"][0]["op"] == "aten::linalg_svdvals" or \
        "svd" in five["fallbacks"][0]["op"]


@pytest.mark.full
def test_the_script_is_its_own(tmp_path: Path) -> None:
    """Its output, arguments and error are those of Python alone."""
    script = tmp_path / "raises.py"
    script.write_text(
        "import sys, torch\n"
        "print(sys.argv[1:], __name__)\n"
        "f = torch.compile(lambda x: x + 1, backend='eager')\n"
        "f(torch.ones(3))\n"
        "raise ValueError('on purpose')\n")
    done = doctor("--runs", "3", script, "--flag", "value", cwd=tmp_path)
    assert "['--flag', 'value'] __main__" in done.stdout
    assert "ValueError: on purpose" in done.stderr
    assert "the script ended early: ValueError: on purpose" in done.stdout
    assert "nothing splits" in done.stdout


def test_no_script(tmp_path: Path) -> None:
    done = doctor("missing.py", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr == "opgraft doctor: missing.py: there is no such script\n"


@pytest.mark.parametrize("text, told", [
    (b"def f(:\n", "SyntaxError: invalid syntax\n"),
    (b"x\0y", "source code string cannot contain null bytes\n")])
def test_a_file_that_is_not_python(tmp_path: Path, text: bytes, told: str) -> None:
    (tmp_path / "m.og").write_bytes(text)
    done = doctor("m.og", cwd=tmp_path)
    assert done.returncode == 2 and done.stdout == ""
    assert "Traceback" not in done.stderr
    assert done.stderr.endswith(
        f"{told}opgraft doctor: {tmp_path}/m.og: is not a Python script that can "
        "be run\n")


@pytest.mark.full
def test_what_a_script_raises_is_shown_as_python_shows_it(tmp_path: Path) -> None:
    script = tmp_path / "raises.py"
    script.write_text("def f():\n    return 1 / 0\nf()\n")
    plain = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
    assert plain.stderr.startswith("Traceback")
    assert plain.stderr in doctor(script, cwd=tmp_path).stderr


def test_a_torch_that_is_too_old(tmp_path: Path) -> None:
    """Nothing is run, and nothing said of the script that may be false."""
    (tmp_path / "script.py").write_text("print('it ran')\n")
    (tmp_path / "sitecustomize.py").write_text(
        "import torch\ntorch.__version__ = '2.8.0'\n")
    done = subprocess.run(
        [sys.executable, "-m", "opgraft.doctor", "script.py"],
        capture_output=True, text=True, cwd=tmp_path, env=os.environ | {
            "PYTHONPATH": os.pathsep.join(
                [str(tmp_path), os.environ.get("PYTHONPATH", "")])})
    assert done.returncode == 2 and done.stdout == ""
    assert "opgraft doctor: opgraft.doctor needs torch 2.9 or newer, found" in (
        done.stderr)


@pytest.mark.full
def test_a_backend_that_is_missing(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import torch\n"
        "def missing(gm, inputs):\n"
        "    import torch_xla_that_is_missing\n"
        "f = torch.compile(lambda x: x + 1, backend=missing)\n"
        "f(torch.ones(3))\n")
    (root,) = report_of(script, tmp_path, "--runs", "1")["roots"]
    assert root["title"].startswith("ModuleNotFoundError: No module named")
    assert root["fix"]["title"].startswith("install what the backend imports")
    assert root["fix"]["class"] == "upgrade"


def test_inspect() -> None:
    import torch

    from opgraft import doctor as module

    def f(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        torch._dynamo.graph_break()
        return y * 2

    report = module.inspect(f, torch.ones(4), backend="eager", runs=3)
    assert [r["id"] for r in report.roots] == ["GB0025"]
    assert "GB0025" in str(report)


def test_boundary_bytes() -> None:
    """What a split keeps alive: each storage that is needed after it, once."""
    import torch

    from opgraft import doctor as module

    def f(x: torch.Tensor) -> torch.Tensor:
        y = x * 2  # 4000 bytes
        z = x.double()  # 8000 bytes
        row, _dropped = y[0], x + 3
        torch._dynamo.graph_break()
        return y.sum() + z.sum() + row.sum()

    def view(x: torch.Tensor) -> torch.Tensor:
        row = (x * 2)[0]  # 40 bytes, of 4000 that live
        torch._dynamo.graph_break()
        return row + 1

    for fn, wanted in (f, 12_000), (view, 4_000):
        torch._dynamo.reset()
        report = module.inspect(fn, torch.ones(100, 10), backend="eager",
                                runs=0)
        assert [r["boundary_bytes"] for r in report.roots] == [wanted]


def test_a_graph_of_another_attempt_is_left_out(tmp_path: Path) -> None:
    """Dynamo may analyse a frame again after a backend ran."""
    from opgraft.doctor._events import Writer
    from opgraft.doctor._record import Frame, Recorder

    events = tmp_path / "run.events"
    recorder = Recorder(Writer(events))
    made = Frame(1, doctor.__code__, 0, 0, True)
    recorder._stack().append(made)
    attempts = object(), object()
    for attempt in attempts:
        id = recorder.graph_begin("0/0", attempt)
        recorder.lowered(id, "forward", 3, 2, 1)
        recorder.fell_back(id, "aten::x", "", "a title", "a text")
        recorder.graph(None, {}, "name", "inductor", 5, 64, 1000, id)
    recorder.frame_end(made, "compiled", "")
    lines = events.read_text().splitlines()
    kinds = [line.split("\t")[0] for line in lines]
    assert [kinds.count(k) for k in ("graph", "lower", "cause")] == [1, 1, 1]
    graph = next(line for line in lines if line.startswith("graph"))
    assert "id=2" in graph and "ns=2000" in graph


@torch.library.custom_op("doctor_outside::own", mutates_args=())
def own(x: torch.Tensor) -> torch.Tensor:
    return (x.sin().cos() + 1).exp()


@torch.compiler.disable
def eager(x: torch.Tensor) -> torch.Tensor:
    for _ in range(10):
        x = x.norm() + x
    return x


def test_what_is_not_compiled_is_not_counted_as_captured(tmp_path: Path) -> None:
    """Operators of a gap between graphs, and those that the Python of an opaque
    operator calls."""
    own.register_fake(torch.empty_like)
    adopted = opgraft.adopt(
        lambda x: (x + 1) * 2, "twice(Tensor x) -> Tensor", "x[*N] -> [*N]", "x: f32 -> x",
        name="doctor_outside::twice")
    models = {lambda x: (x + 1) * 2: (2, 0), lambda x: eager(x + 1) * 2: (2, 20),
              lambda x: adopted(own(x + 1)): (3, 6)}
    for model, counted in models.items():
        torch._dynamo.reset()
        with _run.recording(tmp_path / "run.events", 1):
            torch.compile(model, backend="aot_eager")(torch.ones(4, 4))
        assert _trial._operators(tmp_path / "run.events") == counted


def test_the_whole_of_what_is_compiled_is_not_made_opaque(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then nothing would be compiled; the functions below may be."""
    script, seen = tmp_path / "script.py", tmp_path / "seen"
    script.write_text("""\
import torch
def inner(x):
    return x + 1
def middle(x):
    return inner(x) * 2
def entry(x):
    return middle(x).relu()
torch.compile(entry, backend="aot_eager")(torch.ones(4))
""")
    monkeypatch.setenv(_told.FILE, str(seen))

    def run(texts: dict[str, str]) -> str:
        with torch.compiler.set_stance("force_eager"):
            exec(compile(texts[str(script)], script, "exec"), {"__name__": "__main__"})
        return str(seen)

    for line, names in (3, ["inner", "middle"]), (5, ["middle"]), (7, []):
        candidates, told = _opaque.explored([(str(script), line)], {}, run)
        (found,) = candidates.values()
        assert [title for title, *_ in _opaque.proposed(found, told, {})] == [
            f"make {name} one opaque call of the graph" for name in names]
