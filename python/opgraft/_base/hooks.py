# SPDX-License-Identifier: Apache-2.0
"""Runs a function when a module is imported, at once if it already is.

Loading an operator must not import torch._dynamo or torch._inductor, which
take a second; what they need to know is told to them when they come.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
import threading
from typing import Any, Callable, Sequence

_waiting: dict[str, list[Callable[[], None]]] = {}
_ready: set[str] = set()  # imported under _Loader, and told
_lock = threading.Lock()  # of both; no callback runs under it


class _Loader(importlib.abc.Loader):
    def __init__(self, inner: Any, name: str) -> None:
        self._inner = inner
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def create_module(self, spec: Any) -> Any:
        return self._inner.create_module(spec)

    def exec_module(self, module: Any) -> None:
        self._inner.exec_module(module)
        with _lock:
            _ready.add(self._name)
            callbacks = _waiting.pop(self._name, [])
        for callback in callbacks:
            callback()


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(
        self, name: str, path: Sequence[str] | None, target: Any = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name not in _waiting:
            return None
        for finder in sys.meta_path:
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(name, path, target)
            if spec is not None and spec.loader is not None:
                spec.loader = _Loader(spec.loader, name)
                return spec
        return None


_finder = _Finder()


def when_imported(
    name: str,
    callback: Callable[[], None],
    undo: list[Callable[[], None]],
) -> None:
    """`undo` gets what takes a callback back that has not run."""
    with _lock:
        module = sys.modules.get(name)
        spec = getattr(module, "__spec__", None)
        # A module that is being imported is ready once its body has run.
        is_ready = name in _ready or module is not None and not getattr(
            spec, "_initializing", False)
        if not is_ready:
            if _finder not in sys.meta_path:
                sys.meta_path.insert(0, _finder)
            _waiting.setdefault(name, []).append(callback)
    if is_ready:
        callback()
        return

    def forget() -> None:
        with _lock:
            if callback in _waiting.get(name, []):
                _waiting[name].remove(callback)

    undo.append(forget)
