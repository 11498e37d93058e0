# SPDX-License-Identifier: Apache-2.0
"""doctor as a gate: a script that did not run to its end passes no limit; a
signal ends the script, and what was seen is reported."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

COMPILED = """
import os, signal, sys, time
import torch
f = torch.compile(lambda x: (print("a break"), x + 1)[1], backend="eager")
f(torch.ones(2))
"""


def start(tmp_path: Path, script: str, *options: str
          ) -> subprocess.Popen[str]:
    (tmp_path / "script.py").write_text(script)
    return subprocess.Popen(
        [sys.executable, "-m", "opgraft.doctor", "--no-verify", "--runs", "0",
         *options, "script.py"], cwd=tmp_path, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**os.environ, "NO_COLOR": "1", "MARK": str(tmp_path / "mark")})


@pytest.mark.full
@pytest.mark.parametrize("end,said,limit", [
    ("raise ValueError('no data')\n", "ValueError: no data",
     "--max-recompiles"),
    ("raise SystemExit(3)\n", "sys.exit(3)", "--max-roots"),
    ("import os\nos._exit(0)\n", "cut short", "--max-recompiles"),
    ("import os\nos.abort()\n", "cut short", "--max-roots"),
], ids=["raise", "exit", "os._exit", "crash"])
def test_gate_fails_for_a_script_that_did_not_run_to_its_end(
        tmp_path: Path, end: str, said: str, limit: str) -> None:
    done = start(tmp_path, end, limit, "9")
    _, errors = done.communicate(timeout=300)
    assert done.returncode == 2, errors
    assert "opgraft: gate: the script " in errors and said in errors


def test_gate_fails_for_what_is_no_script(tmp_path: Path) -> None:
    _, errors = (done := start(tmp_path, "def f(:\n", "--max-roots", "9")
                 ).communicate(timeout=300)
    assert done.returncode == 2
    assert "SyntaxError: invalid syntax" in errors and errors.endswith(
        "script.py: is not a Python script that can be run\n")


@pytest.mark.full
def test_gate_passes_a_script_that_ran(tmp_path: Path) -> None:
    done = start(tmp_path, COMPILED, "--max-roots", "9")
    _, errors = done.communicate(timeout=300)
    assert done.returncode == 0, errors


WAITS = COMPILED + """
with open(os.environ["MARK"] + ".part", "w") as mark:
    mark.write(str(os.getpid()))
os.rename(os.environ["MARK"] + ".part", os.environ["MARK"])
while True:
    time.sleep(0.1)
"""


def stopped(tmp_path: Path, number: int) -> tuple[int, str, int]:
    """The exit status, the report, and the script's process."""
    run = start(tmp_path, WAITS)
    end = time.monotonic() + 300
    while not (tmp_path / "mark").exists():
        assert time.monotonic() < end and run.poll() is None
        time.sleep(0.05)
    child = int((tmp_path / "mark").read_text())
    run.send_signal(number)
    output, _ = run.communicate(timeout=120)
    return run.returncode, output, child


@pytest.mark.full
def test_sigterm_ends_the_script_too(tmp_path: Path) -> None:
    status, output, child = stopped(tmp_path, signal.SIGTERM)
    assert status == 128 + signal.SIGTERM
    assert not Path(f"/proc/{child}").exists()
    assert "the run was cut short" in output


@pytest.mark.full
def test_interrupt_reports_what_was_seen(tmp_path: Path) -> None:
    status, output, child = stopped(tmp_path, signal.SIGINT)
    assert status == 128 + signal.SIGINT
    assert not Path(f"/proc/{child}").exists()
    assert "the script ended early: KeyboardInterrupt" in output
    assert "reorderable_logging_functions" in output  # the break's fix
