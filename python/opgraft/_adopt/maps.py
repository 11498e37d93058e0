# SPDX-License-Identifier: Apache-2.0
"""What a native callable takes: `out.data, x.data, x.numel` as programs for C.

    x, x.data       the first element (x alone: the DLTensor for TVM-FFI)
    x.numel x.ndim x.itemsize x.nbytes x.shape x.strides x.dl
    x.size(i) x.shape[i] x.stride(i) x.strides[i]
    x[i]            element i, of a function that is called for every element
    eps, N          an argument that is not a tensor, a named dim
    sizes.data, len(sizes)
    1, 0.5, NULL, stream, and + - * // % over integers
    user_data       what a scipy.LowLevelCallable holds
"""

from __future__ import annotations

import ast
import struct
from typing import Any

from .._base.rules import Description

Step = tuple[str, bool, int, int]
Program = list[Step]

_PLAIN = {"data", "dl", "shape", "strides", "numel", "ndim", "itemsize"}
_AT = {"size": "size_at", "shape": "size_at", "stride": "stride_at",
       "strides": "stride_at"}
_OPERATORS: dict[type, str] = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul",
                               ast.FloorDiv: "div", ast.Mod: "mod"}


RANK_MAX = 64  # OPGRAFT_RANK_MAX
# Python's parser and its stack end at depths of their own.
NO_EXPRESSION = "is not an expression, or nested too deeply"


def expression(text: str) -> ast.expr | None:
    """None where the text is not an expression, or Python's parser has no room
    for it."""
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None


def shown(text: str) -> str:
    """A text in a message."""
    return repr(text if len(text) <= 80 else f"{text[:77]}...")


def result_names(d: Description) -> list[str]:
    """How `call` names the fresh results: as the schema does, else out, or
    out0, out1…"""
    one = len(d.fresh) == 1
    return [r["name"] or ("out" if one else f"out{i}")
            for i, r in enumerate(d.fresh)]


def parts(call: str) -> list[str]:
    """The arguments of a call, split at its outer commas."""
    found, depth, start = [], 0, 0
    for i, c in enumerate(call):
        depth += (c in "([") - (c in ")]")
        if c == "," and depth == 0:
            found.append(call[start:i])
            start = i + 1
    return [p.strip() for p in [*found, call[start:]] if p.strip()]


class Names:
    """What the names of a mapping stand for."""

    def __init__(
        self, d: Description, whole: str, user_data: int | None = None
    ) -> None:
        self.d = d
        self.user_data = user_data
        self.whole = whole  # what a tensor's bare name means
        self.used_outs: set[int] = set()  # fresh results
        self.tensors: dict[str, tuple[bool, int]] = {}
        for p in d.params:
            if p["tensor"] is not None and not p["list"]:
                self.tensors[p["name"]] = (
                    (True, p["out"]) if p["mutated"] else (False, p["tensor"]))
        self.fresh = {n: i for i, n in enumerate(result_names(d))}
        for name, i in self.fresh.items():
            self.tensors[name] = (True, len(d.mutated) + i)
        self.attrs = {p["name"]: p for p in d.params if p["tensor"] is None}
        self.dims = {dim["name"]: i for i, dim in enumerate(d.tables["dims"])}

    def program(self, text: str) -> Program:
        tree = expression(text)
        if tree is None:
            raise self._error(text, NO_EXPRESSION)
        try:
            return self._walk(tree, text)
        except RecursionError:
            raise self._error(text, NO_EXPRESSION) from None

    def _error(self, text: str, what: str) -> ValueError:
        known = ", ".join([*self.tensors, *self.attrs, *self.dims])
        return ValueError(
            f"{self.d.name}: call: {shown(text)} {what}; it may use {known} and "
            "what docs/adopt.md lists"
        )

    def _tensor(self, name: str, step: str, value: int = 0) -> Step:
        is_out, index = self.tensors[name]
        if name in self.fresh:
            self.used_outs.add(self.fresh[name])
        return (step, is_out, index, value)

    def _walk(self, node: ast.expr, text: str) -> Program:
        if isinstance(node, ast.Constant):
            return [self._constant(node.value, text)]
        if isinstance(node, ast.Name):
            return [self._name(node.id, text)]
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            return self._field(node.value.id, node.attr, text)
        if isinstance(node, ast.Subscript):
            return [self._entry(node, text)]
        if isinstance(node, ast.Call):
            return [self._call(node, text)]
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            value: Any = getattr(node.operand, "value", None)
            if type(value) in (int, float):
                return [self._constant(-value, text)]
            return [("integer", False, 0, 0), *self._walk(node.operand, text),
                    ("sub", False, 0, 0)]
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            return [*self._walk(node.left, text), *self._walk(node.right, text),
                    (_OPERATORS[type(node.op)], False, 0, 0)]
        raise self._error(text, "is not understood")

    def _constant(self, value: Any, text: str) -> Step:
        if isinstance(value, (bool, int)) and -2**63 <= value < 2**63:
            return ("integer", False, 0, int(value))
        if isinstance(value, float):
            bits = struct.unpack("<q", struct.pack("<d", value))[0]
            return ("real", False, 0, bits)
        if value is None:
            return ("nil", False, 0, 0)
        raise self._error(text, "has a constant that is not a number")

    def _name(self, name: str, text: str) -> Step:
        if name in self.tensors:
            return self._tensor(name, self.whole)
        if name in self.attrs:
            p = self.attrs[name]
            return ("attr_data" if p["list"] else "attr", False, p["attr"], 0)
        if name in self.dims:
            return ("dim", False, self.dims[name], 0)
        if name == "user_data" and self.user_data is not None:
            return ("address", False, 0, self.user_data)
        if name in ("NULL", "stream"):
            return ("nil" if name == "NULL" else "stream", False, 0, 0)
        raise self._error(text, f"names {name}")

    def _field(self, name: str, field: str, text: str) -> Program:
        if name in self.attrs and field == "data":
            return [("attr_data", False, self.attrs[name]["attr"], 0)]
        if name not in self.tensors:
            raise self._error(text, f"names {name}, which is not a tensor")
        if field == "nbytes":
            return [self._tensor(name, "numel"),
                    self._tensor(name, "itemsize"), ("mul", False, 0, 0)]
        if field not in _PLAIN:
            raise self._error(text, f"asks {name} for its {field}")
        return [self._tensor(name, field)]

    def _dim(self, name: str, step: str, at: ast.expr, text: str) -> Step:
        if name not in self.tensors:
            raise self._error(text, f"names {name}, which is not a tensor")
        if isinstance(at, ast.UnaryOp) and isinstance(at.op, ast.USub):
            sign, value = -1, getattr(at.operand, "value", None)
        else:
            sign, value = 1, getattr(at, "value", None)
        if type(value) is not int or value > RANK_MAX:
            raise self._error(text, "has a dim that is not a number, or above "
                              f"{RANK_MAX}")
        return self._tensor(name, step, sign * value)

    def _entry(self, node: ast.Subscript, text: str) -> Step:
        value, at = node.value, node.slice
        if isinstance(value, ast.Name) and value.id in self.tensors:
            if isinstance(at, ast.Name) and at.id == "i":
                return self._tensor(value.id, "element")
        elif isinstance(value, ast.Attribute) and value.attr in (
                "shape", "strides") and isinstance(value.value, ast.Name):
            return self._dim(value.value.id, _AT[value.attr], at, text)
        raise self._error(text, "is not understood")

    def _call(self, node: ast.Call, text: str) -> Step:
        f, args = node.func, node.args
        if isinstance(f, ast.Name) and f.id == "len" and len(args) == 1 and (
                isinstance(args[0], ast.Name) and args[0].id in self.attrs):
            return ("attr_count", False, self.attrs[args[0].id]["attr"], 0)
        if isinstance(f, ast.Attribute) and isinstance(f.value, ast.Name):
            if f.attr in ("size", "stride") and len(args) == 1:
                return self._dim(f.value.id, _AT[f.attr], args[0], text)
            if not args:
                steps = self._field(f.value.id, f.attr, text)
                if len(steps) == 1:
                    return steps[0]
        raise self._error(text, "is not understood")
