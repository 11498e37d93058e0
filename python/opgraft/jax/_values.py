# SPDX-License-Identifier: Apache-2.0
"""The adapter's two forms of arguments that are not tensors: the words of
opgraft_jax_infer and XLA's attributes."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from .._base.dtypes import CODES
from .._base.values import (
    BOOL,
    COMPLEX,
    DTYPE,
    FLOAT,
    FLOATS,
    INT,
    NONE,
    STR,
    STRS,
    Value,
    double,
)


def words(value: Value, kept: list[Any]) -> list[int]:
    """As opgraft_jax_infer reads it; what addresses point to goes to `kept`."""
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
        text = v.encode()
        return [kind, _address(text, kept), len(text)]
    entries = [_address(t.encode(), kept) for t in v] if kind == STRS else v
    return [kind, len(entries), *entries]


def _address(text: bytes, kept: list[Any]) -> int:
    held = ctypes.create_string_buffer(text)
    kept.append(held)
    return ctypes.addressof(held)


def attributes(name: str, value: Value, default: Value) -> dict[str, Any]:
    """As XLA takes it: see hosts/jax/attrs.h."""
    kind, v = value
    if kind == NONE:
        return {} if default.kind == NONE else {f"{name}.none": np.bool_(True)}
    if kind == INT:
        return {name: np.int64(v)}
    if kind == BOOL:
        return {name: np.bool_(v)}
    if kind == FLOAT:
        return {name: np.float64(double(v))}
    if kind == COMPLEX:
        return {name: np.array([double(part) for part in v], np.float64)}
    if kind in (STR, DTYPE):
        return {name: v}
    if not v:
        return {f"{name}.empty": np.bool_(True)}
    if kind == STRS:
        if any("\n" in text for text in v):
            raise TypeError(f"{name}: a text of a list has a newline, which "
                            "ends one in JAX")
        return {name: "".join(text + "\n" for text in v)}
    if kind == FLOATS:
        return {name: np.array([double(bits) for bits in v], np.float64)}
    return {name: np.array(v, np.int64)}
