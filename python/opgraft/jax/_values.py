# SPDX-License-Identifier: Apache-2.0
"""Arguments that are not tensors: from Python to the adapter's two forms, the
words of opgraft_jax_infer and XLA's attributes.

A value is a kind (og_attr's) and what can be compared bit by bit: two calls
with 0.0 and -0.0 are not one compiled call.
"""

from __future__ import annotations

import ctypes
import operator
import struct
from typing import Any, NamedTuple

import numpy as np

from .._base.dtypes import CODES, declared_dtype

NONE, INT, FLOAT, BOOL, COMPLEX, STR, DTYPE = range(7)
INTS, FLOATS, BOOLS, STRS = 8, 9, 10, 11

class Value(NamedTuple):
    kind: int
    value: Any = None


def _bits(value: Any) -> int:
    return int(struct.unpack("q", struct.pack("d", float(value)))[0])


def double(bits: int) -> float:
    return float(struct.unpack("d", struct.pack("q", bits))[0])


def _scalar(value: Any) -> Value:
    if isinstance(value, (bool, np.bool_)):
        return Value(BOOL, int(value))
    if isinstance(value, (complex, np.complexfloating)):
        return Value(COMPLEX, (_bits(value.real), _bits(value.imag)))
    if isinstance(value, (float, np.floating)):
        return Value(FLOAT, _bits(value))
    return Value(INT, operator.index(value))


def _single(kind: str, value: Any) -> Value:
    if kind in ("int", "SymInt"):
        return Value(INT, operator.index(value))
    if kind == "float":
        return Value(FLOAT, _bits(value))
    if kind == "bool":
        return Value(BOOL, int(bool(value)))
    if kind == "Scalar":
        return _scalar(value)
    if kind == "str":
        if not isinstance(value, str):
            raise TypeError(f"{value!r} is not a str")
        return Value(STR, value)
    if kind == "Device":
        raise TypeError("JAX chooses the device")
    return Value(DTYPE, declared_dtype(value))


_LISTS = {INT: INTS, FLOAT: FLOATS, BOOL: BOOLS, STR: STRS}


def read(op: str, param: dict[str, Any], value: Any) -> Value:
    """The value of an argument; TypeError where it does not fit."""
    if value is None:
        return Value(NONE)
    try:
        if not param["list"]:
            return _single(param["type"], value)
        is_one = isinstance(value, (int, float, str))
        size = param.get("list_size") or 0
        if param["type"] == "str" and any("\n" in str(v) for v in value):
            raise TypeError("a text of a list has a newline, which ends one "
                            "in JAX")
        entries = [_single(param["type"], v)
                   for v in ([value] * (size or 1) if is_one else value)]
        empty = _single(param["type"], "" if param["type"] == "str" else 0)
        return Value(_LISTS[empty.kind], tuple(v.value for v in entries))
    except (TypeError, ValueError) as error:
        wanted = param["type"] + ("[]" if param["list"] else "")
        raise TypeError(
            f"{op}: {param['name']} is {type(value).__name__}, expected "
            f"{wanted}, a value that is known when the call is traced: {error}"
        ) from None


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
        return {name: "".join(text + "\n" for text in v)}
    if kind == FLOATS:
        return {name: np.array([double(bits) for bits in v], np.float64)}
    return {name: np.array(v, np.int64)}
