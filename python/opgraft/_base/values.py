# SPDX-License-Identifier: Apache-2.0
"""Arguments that are not tensors, for hosts that pass them to C as words.
Imports no host.

A value is a kind (og_attr's) and what can be compared bit by bit: two calls
with 0.0 and -0.0 are not one compiled call.
"""

from __future__ import annotations

import operator
import struct
from typing import Any, NamedTuple

import numpy as np

from .dtypes import declared_dtype
from .tables import Description

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
        raise TypeError("the host chooses the device")
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


def plain(value: Value) -> Any:
    """A value as a call takes it."""
    kind, v = value
    if kind == FLOAT:
        return double(v)
    if kind == FLOATS:
        return [double(bits) for bits in v]
    if kind == COMPLEX:
        return complex(*(double(bits) for bits in v))
    return bool(v) if kind == BOOL else v


def bind(d: Description, args: tuple[Any, ...],
         kwargs: dict[str, Any]) -> list[Any]:
    """A value for each parameter of a call; TypeError for a wrong one."""
    positional = [p for p in d.params if not p["kwonly"]]
    if len(args) > len(positional):
        raise TypeError(f"{d.name}: found {len(args)} positional "
                        f"arguments, expected at most {len(positional)}")
    given = {p["name"]: v for p, v in zip(positional, args)}
    for name, value in kwargs.items():
        if name not in d.by_name:
            raise TypeError(f"{d.name}: has no argument {name!r}; it has "
                            f"{', '.join(d.by_name)}")
        if name in given:
            raise TypeError(f"{d.name}: {name} is given twice")
        given[name] = value
    for p in d.params:
        if p["name"] not in given and not p["has_default"]:
            raise TypeError(f"{d.name}: {p['name']} is missing")
    return [given.get(p["name"], default)
            for p, default in zip(d.params, d.defaults)]
