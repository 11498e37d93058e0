# SPDX-License-Identifier: Apache-2.0
"""What a traced call writes. Tensors that are traced have a storage and an
offset but no memory, so they are given addresses, one range for each storage,
and the rules are the ones that a call with memory meets (src/call/written.c).
Sizes that are symbols count as what they are in this trace: where they are
something else, the kernel's own call is checked.
"""

from __future__ import annotations

import struct
from typing import Any, Sequence

import torch

from .. import _C
from .._base.rules import type_code

_RANGE = 1 << 44  # bytes between the first addresses of two storages


class _Unknown(Exception):
    """A size that is known only when the graph runs."""


def _number(size: Any) -> int:
    if isinstance(size, int):
        return size
    if not size.node.has_hint():
        raise _Unknown
    return int(size.node.hint)


def _is_row_major(tensor: torch.Tensor) -> bool:
    wanted, is_so = 1, True
    for size, stride in zip(reversed(tensor.shape), reversed(tensor.stride())):
        count = _number(size)
        is_so &= count == 1 or _number(stride) == wanted
        wanted *= count
    return is_so or wanted == 0


def _each(values: Sequence[Any]) -> list[torch.Tensor]:
    return [t for v in values
            for t in (v if isinstance(v, (list, tuple)) else [v])
            if isinstance(t, torch.Tensor)]


def _describe(value: Any, storages: dict[int, int]) -> Any:
    if isinstance(value, (list, tuple)):
        return [_describe(v, storages) for v in value]
    if not isinstance(value, torch.Tensor):
        return None
    packed = [struct.pack(f"{value.dim()}q", *map(_number, numbers))
              for numbers in (value.shape, value.stride())]
    storage = storages.setdefault(
        value.untyped_storage()._cdata, len(storages) + 1)
    address = storage * _RANGE + _number(value.storage_offset()) * (
        value.dtype.itemsize)
    return type_code(value.dtype), value.dtype.itemsize * 8, *packed, address


def check(state: Any, values: Sequence[Any], outs: Sequence[torch.Tensor],
          written: Sequence[Any]) -> None:
    """Raises where the call writes memory that it must not. `state` is the
    form's, made where it is needed: most calls have storages of their own."""
    tensors = _each(values) + list(outs)
    if any(t.layout != torch.strided for t in tensors):
        return
    storages = {t.untyped_storage()._cdata for t in tensors}
    try:
        is_plain = all(_is_row_major(t) for t in _each(written))
        if len(storages) == len(tensors) and is_plain:
            return
        known: dict[int, int] = {}
        described = (tuple(_describe(v, known) for v in values),
                     tuple(_describe(o, known) for o in outs))
    except _Unknown:
        return
    _C.check_written(state(), *described)
