# SPDX-License-Identifier: Apache-2.0
"""A shared object with an adapter of hosts/, and what every adapter exports.
Imports no host."""

from __future__ import annotations

import ctypes
import hashlib
import os
from pathlib import Path

TEXT_BYTES = 1024


def content(path: str) -> tuple[bytes, str]:
    """A file's bytes and their hash; ImportError where it is missing."""
    try:
        found = Path(path).read_bytes()
    except OSError as error:
        raise ImportError(f"{path}: could not read: {error.strerror}") from None
    return found, hashlib.sha256(found).hexdigest()


_digests: dict[str, str] = {}  # by path


def unchanged(path: str | os.PathLike[str]) -> str:
    """The real path of a file that the host opens itself. The system gives a
    process the first object of a path for good: ImportError where the file has
    changed since."""
    place = os.path.realpath(path)
    digest = content(place)[1]
    if _digests.setdefault(place, digest) != digest:
        raise ImportError(
            f"{place}: the file has changed since this process loaded it; "
            "start a new process, or build it to another path")
    return place


class SharedObject:
    """The module's declarations, by what the adapter for a host exports:
    opgraft_HOST_open, _name, _describe and opgraft_limit_HOST."""

    def __init__(self, mapped: str, path: str, host: str, title: str) -> None:
        """Opens `mapped`; errors name `path`."""
        self.path = path
        try:
            self.object = ctypes.CDLL(mapped)
        except OSError as error:
            raise ImportError(f"{path}: could not be loaded: {error}") from None
        if not hasattr(self.object, f"opgraft_limit_{host}"):
            raise ImportError(
                f"{path}: does not serve {title}; build it with "
                f"`opgraft build FILE.c --hosts {host}`"
            )
        op, size, text = ctypes.c_int32, ctypes.c_size_t, ctypes.c_char_p
        opened = self.function(f"opgraft_{host}_open", op, text, size)
        name = self.function(f"opgraft_{host}_name", text)
        self._describe = self.function(
            f"opgraft_{host}_describe", size, op, text, size)
        self._limit = self.function(f"opgraft_limit_{host}", text, op)
        why = ctypes.create_string_buffer(TEXT_BYTES)
        self.count: int = opened(why, TEXT_BYTES)
        if self.count < 0:
            raise ImportError(f"{path}: {why.value.decode()}")
        self.name: str = name().decode()

    def function(self, name: str, result: type, *arguments: type
                 ) -> ctypes._NamedFuncPointer:
        found = getattr(self.object, name)
        found.restype = result
        found.argtypes = arguments
        return found

    def describe(self, op: int) -> str:
        size = self._describe(op, None, 0)
        text = ctypes.create_string_buffer(size + 1)
        self._describe(op, text, size + 1)
        return text.value.decode()

    def limit(self, op: int) -> str | None:
        """Why the host does not offer an operator."""
        text: bytes | None = self._limit(op)
        return None if text is None else text.decode()
