# SPDX-License-Identifier: Apache-2.0
"""Breaks and recompiles from PyTorch's structured log, for a hook whose place
is gone. It has lines and ids, but neither says which frame it was nor whether
the frame was split or left eager, so the report says that it read the log."""

from __future__ import annotations

import json
import logging
import re
from typing import Any

from . import _places
from ._hook import Installed
from ._places import Place
from ._record import Recorder

_SITE = re.compile(r"user code at ([^\n]+?):(\d+)")
_ID = re.compile(r"gb/gb(\d{4})\.html")
NAME = "torch.__trace"
WATCHED = {"dynamo_graph_break_reason": "breaks",
           "recompile_reasons": "recompiles"}


class Reader(logging.Handler):
    """Gets the records that `torch._logging.trace_structured` makes."""

    def __init__(self, recorder: Recorder, wanted: set[str]) -> None:
        super().__init__(logging.DEBUG)
        self._recorder = recorder
        self._wanted = wanted

    def emit(self, record: logging.LogRecord) -> None:
        made: Any = record
        artifact = getattr(made, "metadata", {}).get("artifact", {})
        hook = WATCHED.get(artifact.get("name", ""))
        if hook not in self._wanted or self._recorder.is_paused:
            return
        with self._recorder.cost():
            payload = getattr(made, "payload", "") or ""
            if hook == "breaks":
                self._recorder.broke_in_log(*read_break(str(payload)))
            else:
                self._recorder.recompiled_in_log(read_reasons(payload))


def read_break(text: str) -> tuple[list[Place], str, str]:
    """The stack, the title and the id of one break."""
    stack = _places.places_of_text(text.split("User code traceback:")[-1])
    found = _SITE.search(text)
    if not stack and found:
        stack = [Place(found[1].strip("'\""), int(found[2]), "")]
    reason = text.split("Reason:", 1)[-1].strip()
    for line in reason.split("\n"):
        line = line.strip()
        # What the log puts before the reason proper.
        if line and not line.startswith(("Encountered graph break",
                                         "Graph break encountered", "Graph "
                                         "Break", "Compiling up to", "then ")):
            title = line
            break
    else:
        title = "a graph break"
    id = _ID.search(text)
    return stack, title, f"GB{id[1]}" if id else ""


def read_reasons(payload: Any) -> list[str]:
    try:
        found = json.loads(payload) if isinstance(payload, str) else payload
    except ValueError:
        found = payload
    return [str(r) for r in found] if isinstance(found, list) else [str(found)]


def stand_in(installed: Installed, recorder: Recorder) -> None:
    """Reads the log for the hooks that do not work."""
    missing = {hook for hook in WATCHED.values()
               if installed.states.get(hook, "gone").split(":")[0]
               in ("gone", "silent")}
    if not missing:
        return
    import torch

    reader = Reader(recorder, missing)
    log = logging.getLogger(NAME)
    level = log.level
    log.addHandler(reader)
    log.setLevel(logging.DEBUG)
    installed.on_remove(lambda: log.removeHandler(reader))
    installed.on_remove(lambda: log.setLevel(level))
    recorder.note(f"torch {torch.__version__}: no hook for "
                  f"{' and '.join(sorted(missing))}, which are read from its "
                  "log; costs and stages of these are guesses")
