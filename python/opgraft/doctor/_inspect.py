# SPDX-License-Identifier: Apache-2.0
"""inspect(fn, *args): the same report on one callable, as Python values."""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import torch

from . import _run


class Report:
    """A report: `data` as docs/doctor.schema.json says, and its forms.

        >>> report = opgraft.doctor.inspect(torch.nn.ReLU(), torch.ones(2),
        ...                                 backend="eager", runs=0)
        >>> report.roots
        []
        >>> report.render().splitlines()[-1]
        'nothing splits, skips, recompiles or falls back'
    """

    def __init__(self, events: bytes) -> None:
        self.events = events
        self.data: dict[str, Any] = json.loads(self.render("--json", "-"))

    def render(self, *options: str) -> str:
        """What `opgraft report` prints of these events."""
        with tempfile.NamedTemporaryFile(suffix=".events") as file:
            file.write(self.events)
            file.flush()
            done = subprocess.run(
                [_run.program(), "report", file.name, *options],
                capture_output=True, text=True)
        if done.returncode == _run.CANNOT_RUN:
            raise RuntimeError(done.stderr.strip())
        return done.stdout

    @property
    def roots(self) -> list[dict[str, Any]]:
        """The root causes, the most expensive first, as in the JSON report."""
        return self.data["roots"]

    def __str__(self) -> str:
        return self.render()


def inspect(fn: Any, *args: Any, runs: int = 20, backend: Any = "inductor",
            **kwargs: Any) -> Report:
    """Compiles and calls `fn`, or calls it where it is compiled already.

    What `fn` raises arrives here. Only one thread may inspect at a time: what is
    seen is the process's.

        >>> def split(x):
        ...     return x + int(x.sum())  # .item() ends the graph
        >>> report = opgraft.doctor.inspect(split, torch.ones(2), backend="eager",
        ...                                 runs=0)
        >>> len(report.roots)
        1
    """
    is_compiled = hasattr(fn, "_torchdynamo_orig_callable")
    compiled = fn if is_compiled else torch.compile(fn, backend=backend)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.events"
        with _run.recording(path, runs, script=getattr(
                fn, "__name__", type(fn).__name__)):
            compiled(*args, **kwargs)
        return Report(path.read_bytes())
