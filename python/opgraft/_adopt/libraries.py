# SPDX-License-Identifier: Apache-2.0
"""Shared libraries whose functions are adopted."""

from __future__ import annotations

import ctypes
import os
import weakref
from typing import Any

from .. import _C


class Library:
    """A shared library, mapped for as long as an operator calls it or someone
    holds this."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.capsule = _C.library_open(path)

    def address(self, name: str) -> int:
        found = _C.library_find(self.capsule, name)
        if found is None:
            raise AttributeError(
                f"{self.path} exports no {name}; `nm -D {self.path}` lists "
                "what it has"
            )
        return found


_libraries: dict[str, tuple[Any, "weakref.ref[Library]"]] = {}


def library(path: Any) -> Library:
    """The library of a path, or of a name that the loader finds."""
    if isinstance(path, Library):
        return path
    if isinstance(path, ctypes.CDLL):
        path = path._name or ""
    where = os.fspath(path)
    stamp = None
    if os.sep in where:
        where = os.path.realpath(where)
        if not os.path.exists(where):
            raise FileNotFoundError(f"{where}: no such library")
        info = os.stat(where)
        stamp = (info.st_ino, info.st_mtime_ns, info.st_size)
    known = _libraries.get(where)
    kept = known[1]() if known is not None else None
    if known is not None and kept is not None:
        if known[0] != stamp:
            raise RuntimeError(
                f"{where} changed since it was loaded, and operators still "
                "call the old one; unadopt them and drop what holds them, "
                "then adopt again"
            )
        return kept
    try:
        made = Library(where)
    except OSError as error:
        if os.sep not in where and os.path.exists(where):
            raise OSError(f"{error}; the loader does not look in this folder: "
                          f'library="./{where}"') from None
        raise
    _libraries[where] = (stamp, weakref.ref(made))
    return made
