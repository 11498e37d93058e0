# SPDX-License-Identifier: Apache-2.0
"""Tensors in a device's memory: new ones, and copies to, from and on it.

A tensor that is not dense is read with the bytes between its elements, from its
first to its last one. Only its own elements are written: the bytes between them
are other tensors', which may have changed since.
"""

from __future__ import annotations

import itertools
from typing import Any

import torch

from .. import _C
from . import state

TO_DEVICE, TO_HOST, ON_DEVICE = 0, 1, 2


def empty_strided(
    size: Any, stride: Any, dtype: torch.dtype | None, device: Any
) -> torch.Tensor:
    return _C.device_empty(
        state.current().handle, state.index_of(device),
        dtype or torch.get_default_dtype(), tuple(map(int, size)),
        tuple(map(int, stride)))


def row_major(size: Any) -> tuple[int, ...]:
    strides, step = [], 1
    for n in reversed(tuple(map(int, size))):
        strides.append(step)
        step *= max(n, 1)
    return tuple(reversed(strides))


def span(tensor: torch.Tensor) -> int:
    """Elements from the first to the last."""
    if tensor.numel() == 0:
        return 0
    return 1 + sum((n - 1) * step
                   for n, step in zip(tensor.shape, tensor.stride(),
                                      strict=True))


def runs(tensor: torch.Tensor) -> tuple[int, list[int]]:
    """The elements of one contiguous run, and where each run begins."""
    dims = sorted((step, n) for n, step in zip(tensor.shape, tensor.stride(),
                                               strict=True)
                  if n != 1 and step != 0)
    length = 1
    while dims and dims[0][0] == length:
        length *= dims.pop(0)[1]
    outer = (range(0, n * step, step) for step, n in dims)
    return length, [sum(at) for at in itertools.product(*outer)]


def is_dense(tensor: torch.Tensor) -> bool:
    """Whether its elements are one run, each once."""
    return runs(tensor)[0] == tensor.numel()


def _move(kind: int, index: int, to: torch.Tensor, source: torch.Tensor,
          count: int, wait: bool) -> None:
    _C.device_copy(state.current().handle, index, kind, to.data_ptr(),
                   source.data_ptr(), count * to.element_size(), wait)


def to_host(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor of the device on the CPU, with its strides."""
    if tensor._is_zerotensor():
        return torch.zeros(tensor.shape, dtype=tensor.dtype, device="cpu")
    count = span(tensor)
    flat = torch.empty(count, dtype=tensor.dtype, device="cpu")
    _move(TO_HOST, tensor.device.index, flat, tensor, count, True)
    values = flat.as_strided(tensor.shape, tensor.stride())
    if tensor.is_conj():
        values = values.conj()
    return values._neg_view() if tensor.is_neg() else values


def write_back(tensor: torch.Tensor, values: torch.Tensor) -> None:
    """What to_host(tensor) gave, changed: back to the device."""
    if tensor.numel() == 0:
        return
    handle, index = state.current().handle, tensor.device.index
    size = tensor.element_size()
    length, begins = runs(tensor)
    if len(begins) == 1:
        _move(TO_DEVICE, index, tensor, values, length, True)
        return
    to, source = tensor.data_ptr(), values.data_ptr()
    try:
        for begin in begins:
            _C.device_copy(handle, index, TO_DEVICE, to + begin * size,
                           source + begin * size, length * size, False)
    finally:  # `values` stays until the last copy has read it
        _C.device_stream_wait(handle, index, state.stream_handle(index), -1)


def plain(values: torch.Tensor) -> torch.Tensor:
    """The same values in memory: what torch only says of them, it does."""
    if values._is_zerotensor():  # there is no memory
        return values.clone()
    return values.resolve_conj().resolve_neg()


def from_host(values: torch.Tensor, device: Any) -> torch.Tensor:
    """A tensor of the CPU on the device, dense, with its strides where they
    are."""
    values = plain(values)
    if not is_dense(values):
        values = values.contiguous()
    made = empty_strided(values.shape, values.stride(), values.dtype, device)
    write_back(made, values)
    return made


def copy(source: torch.Tensor, to: torch.Tensor) -> None:
    """to.copy_(source), where one of them is on the device."""
    if to.numel() == 0:
        return
    is_near = "cpu" in (source.device.type, to.device.type) or (
        source.device == to.device)  # else by the CPU
    is_same = (is_near and source.dtype == to.dtype
               and source.shape == to.shape
               and source.stride() == to.stride()
               and is_dense(to) and not source._is_zerotensor()
               and source.is_conj() == to.is_conj()
               and source.is_neg() == to.is_neg())
    if is_same:
        kind = (TO_HOST if to.device.type == "cpu" else TO_DEVICE
                if source.device.type == "cpu" else ON_DEVICE)
        index = (to if kind != TO_HOST else source).device.index
        _move(kind, index, to, source, to.numel(), kind != ON_DEVICE)
        return
    values = source if source.device.type == "cpu" else to_host(source)
    if to.device.type == "cpu":
        to.copy_(values)
        return
    target = to_host(to)
    target.copy_(values)
    write_back(to, target)
