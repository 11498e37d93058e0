# SPDX-License-Identifier: Apache-2.0
"""A declaration's rules over symbolic sizes: one function for every operator.

The C library evaluates the same tables on integers (src/decl/infer.c); the
tables come as JSON from opgraft_op_describe, whose fields are listed on top of
src/decl/describe.c.
"""

from __future__ import annotations

import struct
from typing import Any, Callable

import torch

from . import dtypes, sizes, tables

DTYPES = {own: getattr(torch, theirs)
          for theirs, own in dtypes.NAMES.items()}
NAMES = {dtype: name for name, dtype in DTYPES.items()}

Size = Any  # int or SymInt


class Description(tables.Description):
    """An operator's tables, whose defaults are PyTorch's types and devices."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        # Set where sizes come from a C callback: described values to sizes.
        self.callback: Callable[[tuple[Any, ...]], list[Any]] | None = None

    def special(self, value: dict[str, Any]) -> Any:
        if "dtype" in value:
            return DTYPES[value["dtype"]]
        return torch.device(value["device"], value["id"] or None)


# --- Sizes ---------------------------------------------------------------------


class Scope(sizes.Scope):
    """Sizes that may be SymInts."""

    error = RuntimeError

    def as_int(self, value: Any) -> Size:
        if isinstance(value, torch.SymBool):
            return torch.sym_ite(value, 1, 0)
        return super().as_int(value)

    def as_bool(self, value: Any) -> Any:
        return value if isinstance(value, torch.SymBool) else \
            super().as_bool(value)

    def negated(self, truth: Any) -> Any:
        return torch.sym_not(truth)

    def choose(self, truth: Any, a: Any, b: Any) -> Any:
        return torch.sym_ite(truth, a, b)

    def least(self, a: Any, b: Any) -> Any:
        return torch.sym_min(a, b)

    def most(self, a: Any, b: Any) -> Any:
        return torch.sym_max(a, b)

    def check(self, holds: Any, text: Callable[[], str]) -> None:
        torch._check(holds, lambda: f"{self.d.name}: {text()}")

    def broadcast(self, packs: list[Any]) -> tuple[Size, ...]:
        from torch._refs import _broadcast_shapes

        return tuple(_broadcast_shapes(*packs) or ())

    def new_size(self, bound: Size) -> Size:
        most = bound if isinstance(bound, int) else None
        size = torch.library.get_ctx().new_dynamic_size(min=0, max=most)
        torch._check(size <= bound)
        return size

    def item_bytes(self, value: Any) -> int:
        given = _each(value)
        return given[0].element_size() if given else 0


# --- Types -----------------------------------------------------------------------


def _category(dtype: torch.dtype) -> int:
    if dtype.is_complex:
        return 3
    if dtype.is_floating_point:
        return 2
    return 0 if dtype == torch.bool else 1


def promote(values: list[Any]) -> torch.dtype:
    """torch.result_type of any number of tensors and Scalars."""
    groups: list[torch.dtype | None] = [None, None, None]
    for value in values:
        if isinstance(value, torch.Tensor):
            dtype, group = value.dtype, 0 if value.dim() > 0 else 1
        else:
            dtype, group = _scalar_dtype(value), 2
        known = groups[group]
        groups[group] = (
            dtype if known is None else torch.promote_types(known, dtype)
        )
    result: torch.dtype | None = None
    for dtype in groups:
        if dtype is None:
            continue
        if result is None:
            result = dtype
        elif _category(dtype) > _category(result):
            result = torch.promote_types(result, dtype)
    assert result is not None
    return result


def _scalar_dtype(value: Any) -> torch.dtype:
    if isinstance(value, (bool, torch.SymBool)):
        return torch.bool
    if isinstance(value, (int, torch.SymInt)):
        return torch.int64
    if isinstance(value, complex):
        return (torch.complex128 if torch.get_default_dtype() == torch.float64
                else torch.complex64)
    return torch.get_default_dtype()


def _each(value: Any) -> list[torch.Tensor]:
    if value is None:
        return []
    if isinstance(value, (list, tuple)):
        return [t for t in value if t is not None]
    return [value]


def check_types(d: Description, tensors: list[Any]) -> None:
    by_tensor = {p["tensor"]: p for p in d.params}
    for index, rule in enumerate(d.tables["types"]):
        param = by_tensor[index]
        given = _each(tensors[index])
        entries = tensors[index] if param["list"] else []
        if not param["element_optional"] and len(entries or ()) > len(given):
            raise RuntimeError(f"{d.name}: {param['name']} has an entry that "
                               "is None; only a Tensor?[] may")
        wanted = rule["allowed"]
        same = rule["same_as"]
        first = _each(tensors[same])[:1] if same is not None else []
        if first:
            wanted = [NAMES.get(first[0].dtype, "?")]
        for at, tensor in enumerate(given):
            found = NAMES.get(tensor.dtype, str(tensor.dtype))
            if found not in wanted:
                raise RuntimeError(
                    f"{d.name}: {param['name']} is {found}, expected "
                    f"{' or '.join(wanted)}"
                )
            if at == 0:  # a list has one type
                wanted = [found]


def _out_dtype(
    d: Description, rule: dict[str, Any], scope: Scope, values: list[Any]
) -> torch.dtype:
    kind = rule["kind"]
    if kind == "fixed":
        return DTYPES[rule["dtype"]]
    if kind == "promote":
        given = [values[p] for p in rule["params"] if values[p] is not None]
        return promote(given)
    if kind == "attr" and scope.attrs[rule["attr"]] is not None:
        return scope.attrs[rule["attr"]]
    return _each(scope.tensors[rule["tensor"]])[0].dtype


# --- The function -------------------------------------------------------------------


def _is_dense(tensor: torch.Tensor) -> bool:
    import torch._prims_common as common

    return bool(common.is_non_overlapping_and_dense_or_false(tensor))


def _like(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    if _is_dense(tensor):
        return torch.empty_strided(
            tensor.shape, tensor.stride(), dtype=dtype, device=tensor.device
        )
    return torch.empty(tensor.shape, dtype=dtype, device=tensor.device)


# DLPack's type codes, as og_dtype has them.
_CODES = {torch.bfloat16: 4, torch.bool: 6}


def type_code(dtype: torch.dtype) -> int:
    if dtype in _CODES:
        return _CODES[dtype]
    if dtype.is_complex:
        return 5
    if dtype.is_floating_point:
        return 2
    return 0 if dtype.is_signed else 1


def _described(value: Any) -> Any:
    """A value as op_infer takes it. Sizes that are symbols get the values that
    they have here: a callback's shapes are static."""
    if isinstance(value, (list, tuple)):
        return [_described(v) for v in value]
    if isinstance(value, torch.SymInt):
        return int(value)
    if not isinstance(value, torch.Tensor):
        return value
    packed = [struct.pack(f"{value.dim()}q", *(int(n) for n in numbers))
              for numbers in (value.shape, value.stride())]
    return type_code(value.dtype), value.dtype.itemsize * 8, *packed


def _sizes_by_callback(d: Description, values: list[Any]) -> list[Any]:
    assert d.callback is not None
    return d.callback(tuple(_described(v) for v in values))


def scope_of(d: Description, values: list[Any]) -> Scope:
    """The sizes of a call with these values, types and shapes checked."""
    tensors: list[Any] = [v for v, p in zip(values, d.params, strict=False)
                          if p["tensor"] is not None]
    attrs = [v for v, p in zip(values, d.params, strict=False)
             if p["attr"] is not None]
    check_types(d, tensors)
    scope = Scope(d, tensors, attrs)
    scope.match()
    return scope


def _device(d: Description, scope: Scope) -> torch.device:
    """Of the first tensor, else a Device argument, else the CPU."""
    for value in scope.tensors:
        for tensor in _each(value):
            return tensor.device
    for p in d.params:
        if p["type"] == "Device" and scope.attrs[p["attr"]] is not None:
            return torch.device(scope.attrs[p["attr"]])
    return torch.device("cpu")


def arrange(d: Description, fresh: list[Any], values: list[Any]) -> Any:
    """What the dispatcher's form returns: the fresh results, and between them
    the int results, which the rules alone decide."""
    scope = scope_of(d, values) if d.numbers else None
    out = [
        fresh[r["fresh"]] if scope is None or r["value"] is None
        else scope.as_int(scope.value(r["value"]))
        for r in d.results if r["alias"] is None
    ]
    return out[0] if len(out) == 1 else tuple(out)


def infer(d: Description, values: list[Any]) -> list[Any]:
    """Empty tensors for the fresh results of a call with these values."""
    scope = scope_of(d, values)
    tensors = scope.tensors
    device = _device(d, scope)
    out: list[Any] = []
    found = _sizes_by_callback(d, values) if d.has_callback else []
    for rule, kind in zip(d.tables["shapes"], d.tables["out_types"], strict=False):
        dtype = _out_dtype(d, kind, scope, values)
        if rule["kind"] == "like":
            out.append(_like(tensors[rule["tensor"]], dtype))
        elif rule["kind"] == "list":
            count = int(scope.value(rule["count"]))
            out.append([
                torch.empty(scope.sizes(rule["items"], i), dtype=dtype,
                            device=device)
                for i in range(count)
            ])
        elif rule["kind"] == "items":
            out.append(torch.empty(scope.sizes(rule["items"]), dtype=dtype,
                                   device=device))
        else:
            out.append(torch.empty(found[len(out)], dtype=dtype,
                                   device=device))
    return out

