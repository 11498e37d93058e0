# SPDX-License-Identifier: Apache-2.0
"""Runs a script, as it is or changed, in a forked child, and says what came of
it: the roots that are left, the times, and what its compiled functions gave.

The parent has imported torch and run nothing on several threads, so that a
child starts at once: a team of OpenMP's that was there before a fork is waited
for in the child for ever.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
import os
import random
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from . import _run, _source
from ._outputs import Outputs
from ._source import Texts

_IMPORTED = ("torch._dynamo", "torch._inductor.compile_fx",
             "torch._functorch.aot_autograd")
THREADS = torch.get_num_threads()  # what a child has
PATIENCE = 10  # wall time for each second of processor time


@dataclasses.dataclass
class Outcome:
    error: str  # "" where the script ended well
    report: dict[str, Any] = dataclasses.field(default_factory=dict)
    outputs: list[Any] = dataclasses.field(default_factory=list)
    seconds: float = 0.0

    @property
    def roots(self) -> list[dict[str, Any]]:
        return self.report.get("roots", [])

    @property
    def compiled_ms(self) -> float:
        return self.report.get("verdict", {}).get("compiled_ms") or 0.0


def prepare() -> None:
    """Makes this process one to fork from."""
    torch.set_num_threads(1)
    _run.leave_caches_out()
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"  # forked children
    for name in _IMPORTED:
        importlib.import_module(name)


def report_of(events: Path) -> dict[str, Any] | None:
    done = subprocess.run([_run.program(), "report", str(events), "--json",
                           "-"], capture_output=True, text=True)
    return json.loads(done.stdout) if done.returncode != _run.CANNOT_RUN \
        else None


def attempt(script: str, arguments: list[str], texts: Texts, runs: int,
            timeout_s: float, eager_seen: Path | None = None) -> Outcome:
    """One run, of `timeout_s` processor time at most. With `eager_seen`
    nothing is compiled, and calls that _adoption watches are told to that
    file."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        begin = time.monotonic()
        child = os.fork()
        if child == 0:
            # Of processor time, since others may hold the machine; a child
            # that waits for ever is ended in the end.
            signal.setitimer(signal.ITIMER_PROF, timeout_s)
            _in_child(script, arguments, texts, runs, folder, eager_seen)
        error = _wait(child, begin + PATIENCE * timeout_s)
        outcome = Outcome(error, seconds=time.monotonic() - begin)
        if not error and eager_seen is None:
            _read(folder, outcome)
        return outcome


def _read(folder: Path, outcome: Outcome) -> None:
    outcome.report = report_of(folder / "run.events") or {}
    ended = outcome.report.get("run", {})
    outcome.error = ended.get("error", "no report")
    if (folder / "outputs").exists():
        outcome.outputs = torch.load(folder / "outputs", weights_only=True)


def _wait(child: int, end: float) -> str:
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            code = os.waitstatus_to_exitcode(status)
            if code == -signal.SIGPROF:
                return "it took too long"
            return "" if code == 0 else f"it ended with status {code}"
        time.sleep(0.02)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "it took too long"


def _in_child(script: str, arguments: list[str], texts: Texts, runs: int,
              folder: Path, eager_seen: Path | None) -> None:
    status = 1
    try:
        with open(folder / "log", "wb") as out, open(os.devnull, "rb") as nil:
            os.dup2(nil.fileno(), 0)
            os.dup2(out.fileno(), 1)
            os.dup2(out.fileno(), 2)
        torch.set_num_threads(THREADS)
        _same_numbers()
        outputs = Outputs()
        with _source.instead(texts), outputs.recorded():
            if eager_seen is not None:
                from . import _adoption

                os.environ[_adoption.SEEN] = str(eager_seen)
                torch.compiler.set_stance("force_eager")
                runs = 0
            status = _run.script(script, arguments,
                                 str(folder / "run.events"), runs, texts,
                                 outputs)
        torch.save(outputs.values, folder / "outputs")
    finally:
        os._exit(status)


def _same_numbers() -> None:
    """Two runs draw the same random numbers, whatever is fused."""
    import torch._inductor.config as config

    random.seed(0)
    torch.manual_seed(0)
    config.fallback_random = True
    if importlib.util.find_spec("numpy"):
        importlib.import_module("numpy").random.seed(0)
