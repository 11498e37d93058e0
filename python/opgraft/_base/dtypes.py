# SPDX-License-Identifier: Apache-2.0
"""Element types by the names of declarations, NumPy and PyTorch. Imports no
host."""

from __future__ import annotations

from typing import Any

import numpy as np

# A declaration's name of each type, its hosts', DLPack's code and bits.
_TABLE = """
f16 float16 2 16
bf16 bfloat16 4 16
f32 float32 2 32
f64 float64 2 64
i8 int8 0 8
i16 int16 0 16
i32 int32 0 32
i64 int64 0 64
u8 uint8 1 8
u16 uint16 1 16
u32 uint32 1 32
u64 uint64 1 64
bool bool 6 8
c64 complex64 5 64
c128 complex128 5 128
f8e4m3 float8_e4m3fn 10 8
f8e5m2 float8_e5m2 12 8
"""
_ROWS = [row.split() for row in _TABLE.split("\n") if row]
CODES = {name: (int(code), int(bits)) for name, _, code, bits in _ROWS}
NAMES = {theirs: name for name, theirs, _, _ in _ROWS}
_HOST_NAMES = {CODES[own]: theirs for theirs, own in NAMES.items()}


def dtype_name(dtype: Any) -> str:
    """A declaration's name of a type that is given as "f32", np.float32,
    jnp.float32, torch.float32 or a dtype of theirs; NumPy's name where a
    declaration has none. TypeError where it is not a type."""
    name = str(dtype).removeprefix("torch.")
    if name not in CODES and name not in NAMES:
        name = np.dtype(dtype).name
    return NAMES.get(name, name)


def declared_dtype(dtype: Any) -> str:
    """As dtype_name, or of a default ({"dtype": "f32"}); TypeError for a type
    that no declaration has."""
    name = dtype["dtype"] if isinstance(dtype, dict) else dtype_name(dtype)
    if name not in CODES:
        raise TypeError(f"{name} is a type that no declaration has; those are "
                        f"{', '.join(CODES)}")
    return str(name)


def numpy_name(code: int, bits: int) -> str:
    return _HOST_NAMES[code, bits]


def host_name(name: str) -> str:
    """A type's name for NumPy, from a declaration's or its own."""
    return numpy_name(*CODES[name]) if name in CODES else name
