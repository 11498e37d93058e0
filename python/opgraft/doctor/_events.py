# SPDX-License-Identifier: Apache-2.0
"""Writes an event file (docs/doctor-events.md), one line an event."""

from __future__ import annotations

import os
import threading
from typing import IO

HEADER = b"opgraft-events 1\n"
LONGEST = 4000  # characters of one value

_ESCAPES = {i: f"\\x{i:02x}" for i in range(32)}
_ESCAPES.update({ord("\t"): "\\t", ord("\n"): "\\n", ord("\r"): "\\r",
                 ord("\\"): "\\\\", 127: "\\x7f"})

Value = str | int | float


def _encode(value: Value) -> bytes:
    if isinstance(value, bool):
        return b"1" if value else b"0"
    if isinstance(value, int):
        return str(value).encode()
    if isinstance(value, float):
        return repr(value).encode()
    text = value if len(value) <= LONGEST else value[:LONGEST] + "..."
    return text.translate(_ESCAPES).encode("utf-8", "surrogateescape")


def _line(kind: str, fields: dict[str, Value | None]) -> bytes:
    """A field whose value is None or "" is left out; so is 0, the meaning of a
    missing number."""
    parts = [kind.encode()]
    for key, value in fields.items():
        if value or isinstance(value, float):
            parts.append(key.rstrip("_").encode() + b"=" + _encode(value))
    return b"\t".join(parts) + b"\n"


def append(path: str | os.PathLike[str], kind: str, /,
           **fields: Value | None) -> None:
    """One more line of a file that its writer has closed."""
    with open(path, "ab") as file:
        file.write(_line(kind, fields))


class Writer:
    """What is written is flushed at once, so that a crash loses nothing."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._file: IO[bytes] = open(path, "wb")
        self._lock = threading.Lock()
        self._file.write(HEADER)
        self._file.flush()

    def line(self, kind: str, /, **fields: Value | None) -> None:
        with self._lock:
            if not self._file.closed:
                self._file.write(_line(kind, fields))
                self._file.flush()

    def close(self) -> None:
        with self._lock:
            self._file.close()
