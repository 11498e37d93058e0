# SPDX-License-Identifier: Apache-2.0
"""A place in PyTorch that a hook wraps, and putting hooks there."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, NamedTuple

from .._base.hooks import when_imported
from ._record import Recorder

Wrapper = Callable[[Recorder, Callable[..., Any]], Callable[..., Any]]


class Hook(NamedTuple):
    name: str
    module: str
    path: str  # "Class.method" or "function"
    wrap: Wrapper


class Installed:
    """Hooks in place, what became of each, and how to take them out."""

    def __init__(self) -> None:
        self.states: dict[str, str] = {}
        self._undo: list[Callable[[], Any]] = []

    def put(self, hook: Hook, recorder: Recorder) -> None:
        try:
            owner: Any = importlib.import_module(hook.module)
            *path, name = hook.path.split(".")
            for part in path:
                owner = getattr(owner, part)
            inner = getattr(owner, name)
        except (ImportError, AttributeError) as error:
            self.states[hook.name] = f"gone: {error}"
            return
        setattr(owner, name, hook.wrap(recorder, inner))
        self._undo.append(lambda: setattr(owner, name, inner))
        self.states[hook.name] = "ok"

    def put_later(self, hook: Hook, recorder: Recorder) -> None:
        """Once the module is imported, which only a compile does."""
        self.states[hook.name] = "unused"
        when_imported(hook.module, lambda: self.put(hook, recorder),
                      self._undo)

    def on_remove(self, undo: Callable[[], Any]) -> None:
        self._undo.append(undo)

    def remove(self) -> None:
        for undo in reversed(self._undo):
            undo()
        self._undo.clear()
