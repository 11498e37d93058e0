# SPDX-License-Identifier: Apache-2.0
"""What adopted Python callables are given, and what they return beside tensors:
numbers, arrays, None, and results by name."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterable, Mapping
from typing import Any, Callable

import torch

from .._base.counted import counted


def python_record(
    fn: Callable[..., Any], items: tuple[int, ...], keywords: tuple[str, ...],
    returns: bool, is_gradient: bool,
) -> tuple[str, Any]:
    """What hosts/torch/adopt_python.c reads. `items`: what `fn` is given, in
    order (a parameter, or -1 - a fresh result), of which the last ones by
    `keywords`; `returns`: it returns the fresh results."""
    return "python", (fn, items, keywords, returns, is_gradient)


def several_from(
    operator: str, found: Any, names: tuple[str, ...]
) -> tuple[Any, ...]:
    """The results of an operator that has several, in the schema's order, from
    what is neither a tuple nor a list."""
    if isinstance(found, Mapping):
        return _by_name(operator, dict(found), names)
    if dataclasses.is_dataclass(found) and not isinstance(found, type):
        return _by_name(operator, {
            f.name: getattr(found, f.name)
            for f in dataclasses.fields(found)}, names)
    if isinstance(found, Iterable) and not isinstance(found, (str, bytes)):
        if not hasattr(found, "__array__"):
            return tuple(found)
    raise RuntimeError(
        f"{operator}: its schema has {counted(len(names), 'result')}, the "
        f"callable returned {type(found)}; expected a tuple, a list, or a dict or "
        "dataclass whose names are the results'; fix the schema")


def _by_name(
    operator: str, found: dict[str, Any], names: tuple[str, ...]
) -> tuple[Any, ...]:
    if set(found) != set(names):
        wanted = ", ".join(f"Tensor {n}" for n in found)
        expected = ", ".join(n or "a result without a name" for n in names)
        raise RuntimeError(
            f"{operator}: the callable returned {', '.join(map(str, found))}, "
            f"expected {expected}; name the results in the schema as it does: "
            f'"-> ({wanted})"')
    return tuple(found[n] for n in names)


def tensor_from(
    found: Any, dtype: torch.dtype | None, shape: tuple[int, ...],
    is_gradient: bool,
) -> Any:
    """A tensor of its own memory; `found` itself where it is something else,
    which is then an error."""
    if found is None and is_gradient:
        return torch.zeros(shape, dtype=dtype)
    if isinstance(found, (tuple, list)) and len(found) == 1 and not isinstance(
            found[0], (bool, int, float, complex, tuple, list)):
        found = found[0]  # (y,)
    if isinstance(found, torch.Tensor):
        return found
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(found, numpy.generic):
        found = numpy.asarray(found)
    if numpy is not None and isinstance(found, numpy.ndarray):
        # A copy: who else holds the array's memory is not known.
        return torch.from_numpy(numpy.array(found, order="C"))
    if isinstance(found, (bool, int, float, complex)) or _are_numbers(found):
        return _number(found, dtype)
    if hasattr(found, "__dlpack__"):
        return torch.from_dlpack(found).clone()
    return found


def _are_numbers(found: Any) -> bool:
    """A list of numbers, or of such lists."""
    return isinstance(found, (tuple, list)) and all(
        isinstance(v, (bool, int, float, complex)) or _are_numbers(v)
        for v in found)


def _number(found: Any, dtype: torch.dtype | None) -> torch.Tensor:
    """In the declared type where that holds numbers of this kind: an int is
    also a float, a float no int."""
    own = torch.tensor(found, dtype=_own_type(found))
    if dtype is None or own.dtype is torch.bool or own.numel() == 0:
        return own if dtype is None or own.numel() else own.to(dtype)
    fits = (own.dtype.is_complex <= dtype.is_complex and dtype is not torch.bool
            and own.dtype.is_floating_point <= (
                dtype.is_floating_point or dtype.is_complex))
    return torch.tensor(found, dtype=dtype) if fits else own


def _own_type(found: Any) -> torch.dtype | None:
    return torch.int64 if type(found) is int else None


def list_from(found: Any, count: int, is_gradient: bool) -> Any:
    """A list result's entries; `found` itself where it is not a list."""
    if found is None and is_gradient:
        return [None] * count
    if isinstance(found, Mapping):
        return list(found.values())
    if isinstance(found, Iterable) and not isinstance(found, (str, bytes)):
        return list(found)
    return found


def copies(values: tuple[Any, ...]) -> list[list[torch.Tensor]]:
    """What arguments hold before a call."""
    return [[_bits(t).clone() for t in _tensors(v)] for v in values]


def find_written(values: tuple[Any, ...], before: list[list[torch.Tensor]]) -> int:
    """The argument that the call wrote; -1: none."""
    for at, (value, kept) in enumerate(zip(values, before)):
        if any(not torch.equal(_bits(t), k)
               for t, k in zip(_tensors(value), kept)):
            return at
    return -1


def _tensors(value: Any) -> list[torch.Tensor]:
    listed = value if isinstance(value, (list, tuple)) else [value]
    return [v for v in listed if isinstance(v, torch.Tensor)]


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    """The bytes, since NaN is equal to nothing."""
    plain = tensor.detach().resolve_conj().resolve_neg()
    return plain.contiguous().reshape(-1).view(torch.uint8)
