# SPDX-License-Identifier: Apache-2.0
"""Runs a script, as it is or changed, in a forked child, and says what came of
it: the roots that are left, the times, and what its compiled functions gave.

The parent has imported torch and run nothing on several threads, so that a
child starts at once: a team of OpenMP's that was there before a fork is waited
for in the child for ever. A child whose script has ended waits, and times a
step whenever it is asked, so that two of them can be timed in turns.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
import os
import random
import re
import select
import signal
import socket
import struct
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from . import _measure, _run, _source, _told
from ._outputs import Outputs
from ._source import Texts

_IMPORTED = ("torch._dynamo", "torch._inductor.compile_fx",
             "torch._functorch.aot_autograd")
THREADS = torch.get_num_threads()  # of what a child runs
PATIENCE = 10  # wall time for each second of processor time


BLOCKS = 7  # of either side, in each of two halves, before they are compared
ROUNDS = 280
ROUNDS_S = 30.0
LATE = "it took too long"
_ANSWER = struct.Struct("<q")


class Child:
    """A forked process, and the socket on which it is asked for a block."""

    def __init__(self, pid: int, line: socket.socket) -> None:
        self.pid, self._line = pid, line

    def answer(self, timeout_s: float) -> int | None:
        """What the child says next; None where it ended, or says nothing for
        so long."""
        if not select.select([self._line], [], [], max(timeout_s, 0))[0]:
            return None
        try:
            said = self._line.recv(_ANSWER.size, socket.MSG_WAITALL)
        except OSError:
            return None
        return _ANSWER.unpack(said)[0] if len(said) == _ANSWER.size else None

    def block_ns(self, timeout_s: float) -> int | None:
        try:
            self._line.sendall(b"t")
        except OSError:
            return None
        ns = self.answer(timeout_s)
        return ns if ns is not None and ns > 0 else None

    def end(self) -> int:
        """Ends the process; its exit code, negative for a signal."""
        self._line.close()
        for _ in range(100):
            done, status = os.waitpid(self.pid, os.WNOHANG)
            if done:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.02)
        os.kill(self.pid, signal.SIGKILL)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


@dataclasses.dataclass
class Outcome:
    error: str  # "" where the script ended well
    report: dict[str, Any] = dataclasses.field(default_factory=dict)
    outputs: list[Any] = dataclasses.field(default_factory=list)
    seconds: float = 0.0
    captured: int = 0  # operators of one step that run inside regions
    outside: int = 0  # and those that do not
    child: Child | None = None  # it waits, to be timed

    @property
    def roots(self) -> list[dict[str, Any]]:
        return self.report.get("roots", [])

    @property
    def compiled_ms(self) -> float:
        return self.report.get("verdict", {}).get("compiled_ms") or 0.0

    def close(self) -> None:
        if self.child is not None:
            self.child.end()
            self.child = None


def compared_ms(before: Outcome, after: Outcome, slower: float,
                most_s: float) -> tuple[float, float] | None:
    """One step of each: the least of blocks that were timed in turns. None
    where the machine is too noisy to say whether `after` takes `slower` times
    as long: the least of even and of odd rounds and the middle of all must
    agree on that."""
    sides: tuple[list[int], list[int]] = [], []
    end = time.monotonic() + most_s
    for count in range(1, ROUNDS + 1):
        for side, child in zip(sides, (before.child, after.child)):
            ns = child.block_ns(ROUNDS_S) if child is not None else None
            if ns is None:
                return None
            side.append(ns)
        if count % BLOCKS == 0 and count >= 2 * BLOCKS and len(
                {ratio > slower for ratio in _ratios(*sides)}) == 1:
            return min(sides[0]) / 1e6, min(sides[1]) / 1e6
        if time.monotonic() > end:
            break
    return None


def _ratios(before: list[int], after: list[int]) -> list[float]:
    middle = len(before) // 2
    return [min(after[::2]) / min(before[::2]),
            min(after[1::2]) / min(before[1::2]),
            sorted(after)[middle] / sorted(before)[middle]]


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
            timeout_s: float, most_s: float, eager_seen: Path | None = None
            ) -> Outcome:
    """One run, of `timeout_s` processor time and `most_s` in all; the outcome's
    owner closes it. With `eager_seen` nothing is compiled, and calls that _adoption,
    _opaque and _values watch are told to that file."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ours, its = socket.socketpair()
        child = Child(os.fork(), ours)
        if child.pid == 0:
            ours.close()
            # Of processor time, since others may hold the machine; a child
            # that waits for ever is ended in the end.
            signal.setitimer(signal.ITIMER_PROF, timeout_s)
            _in_child(script, arguments, texts, runs, folder, eager_seen, its)
        its.close()
        return _outcome(child, folder, min(PATIENCE * timeout_s, most_s),
                        eager_seen is None)


def _outcome(child: Child, folder: Path, wait_s: float, is_read: bool
             ) -> Outcome:
    end = time.monotonic() + wait_s
    used = child.answer(end - time.monotonic())
    if used is None or not is_read:
        is_late = time.monotonic() >= end
        if is_late:
            os.kill(child.pid, signal.SIGKILL)
        code = child.end()
        if is_late or code == -signal.SIGPROF:
            return Outcome(LATE)
        return Outcome("" if used is not None and code == 0
                       else f"it ended with status {code}")
    outcome = Outcome("", seconds=used / 1e9, child=child)
    outcome.report = report_of(folder / "run.events") or {}
    outcome.error = outcome.report.get("run", {}).get("error", "no report")
    outcome.captured, outcome.outside = _operators(folder / "run.events")
    if (folder / "outputs").exists():
        outcome.outputs = torch.load(folder / "outputs", weights_only=True)
    return outcome


# A field that is 0 does not stand there.
_OPERATORS = re.compile(
    rb"^ops\t[^\n]*?(?:\binside=(\d+))?(?:\toutside=(\d+))?$", re.MULTILINE)


def _operators(events: Path) -> tuple[int, int]:
    found = _OPERATORS.findall(events.read_bytes()) if events.exists() else []
    return sum(int(f[0] or 0) for f in found), sum(int(f[1] or 0) for f in found)


def _in_child(script: str, arguments: list[str], texts: Texts, runs: int,
              folder: Path, eager_seen: Path | None, line: socket.socket
              ) -> None:
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
                os.environ[_told.FILE] = str(eager_seen)
                torch.compiler.set_stance("force_eager")
                runs = 0
            status = _run.script(script, arguments,
                                 str(folder / "run.events"), runs, texts,
                                 outputs)
        torch.save(outputs.values, folder / "outputs")
        outputs.values.clear()
        _serve(line, outputs.entries if runs > 0 else [])
    finally:
        os._exit(status)


def _serve(line: socket.socket, entries: list[Any]) -> None:
    """Says that the script has ended; then times a block when asked."""
    signal.setitimer(signal.ITIMER_PROF, 0)
    line.sendall(_ANSWER.pack(time.process_time_ns()))
    steps: list[_measure.Step] = []
    while line.recv(1):
        steps = steps or [_measure.Step(entry) for entry in entries]
        line.sendall(_ANSWER.pack(_measure.block_ns(steps)))


def _same_numbers() -> None:
    """Two runs draw the same random numbers, whatever is fused."""
    import torch._inductor.config as config

    random.seed(0)
    torch.manual_seed(0)
    config.fallback_random = True
    if importlib.util.find_spec("numpy"):
        importlib.import_module("numpy").random.seed(0)
