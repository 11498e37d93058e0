# SPDX-License-Identifier: Apache-2.0
"""A call as 64-bit words, but for its tensors: see hosts/shared/packed.h. Imports
no host."""

from __future__ import annotations

import struct
from typing import Any, Iterator

from .dtypes import CODES
from .tables import Description
from .values import (
    BOOL,
    COMPLEX,
    DTYPE,
    FLOAT,
    INT,
    NONE,
    STR,
    STRS,
    Value,
)

_NAMES = {code: name for name, code in CODES.items()}


def _text(text: str) -> list[int]:
    data = text.encode()
    count = len(data) // 8 + 1
    return [len(data), *struct.unpack(f"{count}q", data.ljust(8 * count, b"\0"))]


def _value(value: Value) -> list[int]:
    kind, v = value
    if kind == NONE:
        return [kind]
    if kind in (INT, BOOL, FLOAT):
        return [kind, v]
    if kind == COMPLEX:
        return [kind, *v]
    if kind == DTYPE:
        return [kind, *CODES[v]]
    if kind == STR:
        return [kind, *_text(v)]
    entries = [word for t in v for word in _text(t)] if kind == STRS else v
    return [kind, len(v), *entries]


def pack(d: Description, tensors: list[Any], attrs: list[Value]) -> list[int]:
    """`tensors` by tensor argument, None for an absent one."""
    words: list[int] = []
    for param, value in zip((p for p in d.params if p["tensor"] is not None),
                            tensors):
        if param["list"]:
            words.append(len(value or ()))
            words += [int(entry is not None) for entry in value or ()]
        else:
            words.append(int(value is not None))
    for value in attrs:
        words += _value(value)
    return words


def _read_text(words: Iterator[int]) -> str:
    count = next(words)
    data = [next(words) for _ in range(count // 8 + 1)]
    return struct.pack(f"{len(data)}q", *data)[:count].decode()


def _read(words: Iterator[int]) -> Value:
    kind = next(words)
    if kind == NONE:
        return Value(kind)
    if kind in (INT, BOOL, FLOAT):
        return Value(kind, next(words))
    if kind == COMPLEX:
        return Value(kind, (next(words), next(words)))
    if kind == DTYPE:
        return Value(kind, _NAMES[next(words), next(words)])
    if kind == STR:
        return Value(kind, _read_text(words))
    count = next(words)
    return Value(kind, tuple(_read_text(words) if kind == STRS else next(words)
                             for _ in range(count)))


def unpack(d: Description, call: list[int], inputs: list[Any]) -> list[Any]:
    """A value for each parameter: an input, or a Value."""
    words, each = iter(call), iter(inputs)
    values: list[Any] = [None] * len(d.params)
    for i, p in enumerate(d.params):
        if p["tensor"] is None:
            continue
        if p["list"]:
            flags = [next(words) for _ in range(next(words))]
            values[i] = [next(each) if flag else None for flag in flags]
        elif next(words):
            values[i] = next(each)
    for i, p in enumerate(d.params):
        if p["attr"] is not None:
            values[i] = _read(words)
    return values
