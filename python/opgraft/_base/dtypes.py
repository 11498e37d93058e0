# SPDX-License-Identifier: Apache-2.0
"""Element types by the names of declarations, NumPy and PyTorch. Imports no
host."""

from __future__ import annotations

from typing import Any

import numpy as np

# DLPack's code and bits, by the name that a declaration has for the type.
CODES = {
    "f16": (2, 16), "bf16": (4, 16), "f32": (2, 32), "f64": (2, 64),
    "i8": (0, 8), "i16": (0, 16), "i32": (0, 32), "i64": (0, 64),
    "u8": (1, 8), "u16": (1, 16), "u32": (1, 32), "u64": (1, 64),
    "bool": (6, 8), "c64": (5, 64), "c128": (5, 128),
}
NAMES = {
    "float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64",
    "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64",
    "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64",
    "bool": "bool", "complex64": "c64", "complex128": "c128",
}
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
