# SPDX-License-Identifier: Apache-2.0
"""C functions through ctypes: those that take structs and, in a build without
libffi, those whose arguments do not go by register. What C does at a call
(hosts/torch/adopt_map.c), done by Python."""

from __future__ import annotations

import ctypes
import struct
import warnings
from typing import Any

import torch

from .._base.rules import Description, Scope, check_types
from . import structs
from .results import python_record

CTYPES: dict[str, Any] = {
    "i8": ctypes.c_int8, "i16": ctypes.c_int16, "i32": ctypes.c_int32,
    "i64": ctypes.c_int64, "u8": ctypes.c_uint8, "u16": ctypes.c_uint16,
    "u32": ctypes.c_uint32, "u64": ctypes.c_uint64, "f32": ctypes.c_float,
    "f64": ctypes.c_double, "ptr": ctypes.c_void_p, "void": None,
}
RETURNS_IGNORED, RETURNS_STATUS, RETURNS_RESULT = range(3)
_BINARY = {"add": lambda a, b: a + b, "sub": lambda a, b: a - b,
           "mul": lambda a, b: a * b, "div": lambda a, b: a // b,
           "mod": lambda a, b: a % b}


class Function:
    """A C function as a Python callable of the operator's arguments and, after
    them, its results."""

    def __init__(
        self, d: Description, holder: Any, address: int,
        arguments: list[tuple[str, Any]], result: str, returns: int,
        out: int, is_each: bool,
    ) -> None:
        self.d, self.holder, self.arguments = d, holder, arguments
        self.returns, self.out, self.is_each = returns, out, is_each
        self.c = ctypes.CFUNCTYPE(CTYPES[result], *(
            value.kind if kind == "struct" else CTYPES[kind]
            for kind, value in arguments))(address)

    def __call__(self, *values: Any) -> None:
        d = self.d
        given, fresh = values[:len(d.params)], values[len(d.params):]
        tensors = [v for v, p in zip(given, d.params)
                   if p["tensor"] is not None]
        attrs = [v for v, p in zip(given, d.params) if p["attr"] is not None]
        outs = [given[p] for p in d.mutated] + list(fresh)
        check_types(d, tensors)
        scope = Scope(d, tensors, attrs)
        scope.match()
        call = _Call(tensors, outs, attrs, scope)
        count = outs[self.out].numel() if self.is_each else 1
        for element in range(count):
            found = self.c(*(self._argument(i, kind, steps, call, element)
                             for i, (kind, steps) in enumerate(self.arguments)))
            if self.returns == RETURNS_RESULT:
                outs[self.out].view(-1)[element] = found
            elif self.returns == RETURNS_STATUS and found != 0:
                raise RuntimeError(f"{d.name}: the C function returned {found}, "
                                   "expected 0")

    def _argument(self, at: int, kind: str, steps: Any, call: "_Call",
                  element: int) -> Any:
        """ctypes cuts a number that does not fit; here it is an error."""
        if isinstance(steps, structs.Struct):
            made = structs.fill(
                steps, lambda k, s: self._argument(at, k, s, call, element),
                call.kept)
            call.kept.append(made)
            return ctypes.addressof(made) if kind == "ptr" else made
        value = call.value(steps, element)
        if kind[0] in "iu" and isinstance(value, int):
            if CTYPES[kind](value).value != value:
                raise OverflowError(f"{self.d.name}: argument {at + 1} of its "
                                    f"call does not fit: {value} as {kind}")
        return value


class _Call:
    def __init__(
        self, tensors: list[Any], outs: list[Any], attrs: list[Any],
        scope: Scope,
    ) -> None:
        self.tensors, self.outs, self.attrs = tensors, outs, attrs
        self.scope = scope
        self.kept: list[Any] = []  # arrays that live as long as the call

    def value(self, steps: Any, element: int) -> Any:
        stack: list[Any] = []
        for step, is_out, index, value in steps:
            if step in _BINARY:
                b = stack.pop()
                stack.append(_BINARY[step](stack.pop(), b))
            else:
                stack.append(self._push(step, is_out, index, value, element))
        return stack[0]

    def _push(self, step: str, is_out: bool, index: int, value: int,
              element: int) -> Any:
        if step == "integer":
            return value
        if step == "real":
            return struct.unpack("<d", struct.pack("<q", value))[0]
        if step in ("nil", "stream"):
            return None
        if step == "address":
            return value
        if step == "dim":
            return self.scope._dim(index)
        if step.startswith("attr"):
            return self._attr(step, self.attrs[index])
        return self._tensor(step, (self.outs if is_out else
                                   self.tensors)[index], value, element)

    def _attr(self, step: str, value: Any) -> Any:
        if step == "attr_count":
            return len(value or ())
        if isinstance(value, str):
            return value.encode()
        if step == "attr_data":
            kind = ctypes.c_double if any(
                isinstance(v, float) for v in value) else ctypes.c_int64
            return self._array(kind, value)
        return value

    def _array(self, kind: Any, values: Any) -> int:
        self.kept.append((kind * len(values))(*values))
        return ctypes.addressof(self.kept[-1])

    def _tensor(self, step: str, t: torch.Tensor | None, value: int,
                element: int) -> Any:
        if t is None:
            return 0 if step in ("numel", "ndim") else None
        if step == "data":
            return t.data_ptr()
        if step == "element":
            return t.view(-1)[element].item()
        if step in ("shape", "strides"):
            return self._array(ctypes.c_int64,
                               t.shape if step == "shape" else t.stride())
        if step == "size_at":
            return t.shape[value]
        if step == "stride_at":
            return t.stride(value)
        return {"numel": t.numel, "ndim": t.dim, "itemsize": t.element_size
                }[step]()


def warn(d: Description, count: int) -> None:
    warnings.warn(
        f"{d.name}: its {count} arguments do not go by register, "
        "and this build has no libffi: ctypes calls it, from Python",
        RuntimeWarning, stacklevel=2)


def payload(d: Description, function: Function) -> tuple[str, Any]:
    """What hosts/torch/adopt_python.c reads: all arguments, then all results,
    which the function writes."""
    items = (*range(len(d.params)), *(-1 - i for i in range(len(d.fresh))))
    return python_record(function, items, (), False, False)
