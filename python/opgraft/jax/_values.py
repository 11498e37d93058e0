# SPDX-License-Identifier: Apache-2.0
"""Arguments that are not tensors as XLA's attributes."""

from __future__ import annotations

from typing import Any

import numpy as np

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
