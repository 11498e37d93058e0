# SPDX-License-Identifier: Apache-2.0
"""Do the hooks see what they are for? Asked before the script runs, in a
forked child, so that nothing of it is left in the process."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

import torch

from ._hook import Installed
from ._record import Recorder

CPU_S, WAIT_S = 60, 600  # a machine that others use may take long
# What a hook writes when it works: name of the hook, kind of line, fields.
EXPECTED: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("frames", "frame", {"outcome": "compiled"}),
    ("breaks", "cause", {"stage": "dynamo"}),
    ("recompiles", "cause", {"stage": "recompile"}),
    ("graphs", "graph", {}),
)


class _Seen:
    """In the place of a Writer: what was written, and nothing kept."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, dict[str, Any]]] = []

    def line(self, kind: str, /, **fields: Any) -> None:
        self.lines.append((kind, fields))


def _broken(x: torch.Tensor, n: int) -> torch.Tensor:
    y = x + n
    torch._dynamo.graph_break()
    return y * n


def run(installed: Installed, recorder: Recorder) -> None:
    """Marks the hooks that saw nothing as `silent`."""
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        status = 0
        try:
            signal.alarm(WAIT_S)
            signal.setitimer(signal.ITIMER_PROF, CPU_S)
            with open(os.devnull, "r+b") as nothing:
                for to in (1, 2):
                    os.dup2(nothing.fileno(), to)
            status = _missed(recorder)
        except BaseException:
            status = (1 << len(EXPECTED)) - 1
        finally:
            os._exit(status)
    _, waited = os.waitpid(child, 0)
    if os.WIFSIGNALED(waited):
        recorder.note("the self-test of the hooks did not end: "
                      f"signal {os.WTERMSIG(waited)}")
        return
    for i, (name, _, _) in enumerate(EXPECTED):
        is_there = installed.states.get(name) == "ok"
        if is_there and os.WEXITSTATUS(waited) >> i & 1:
            installed.states[name] = "silent: the self-test saw nothing of it"


def _missed(recorder: Recorder) -> int:
    seen = _Seen()
    recorder.write_to(seen)
    compiled = torch.compile(_broken, backend="eager", dynamic=False)
    for n in (3, 4):
        compiled(torch.ones(2, device="cpu"), n)
    bits = 0
    for i, (_, kind, fields) in enumerate(EXPECTED):
        if not any(k == kind and fields.items() <= f.items()
                   for k, f in seen.lines):
            bits |= 1 << i
    return bits
