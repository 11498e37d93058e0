# SPDX-License-Identifier: Apache-2.0
"""Structs that a C function takes, by pointer or by value: how `call` writes
them, `Params(x=x.data, n=x.numel, scale=scale)`, and how a call fills them."""

from __future__ import annotations

import ast
import ctypes
from dataclasses import dataclass
from typing import Any, Callable, Iterator

from .foreign import ctypes_text
from .maps import expression

Leaf = tuple[str, str, Any]  # a C type, the expression for it, where it stands


@dataclass
class Struct:
    """One struct of a call: for each field that `call` names what it holds, a
    value's (type, program), another struct, or a list of these."""

    kind: Any  # the ctypes.Structure
    is_pointer: bool
    fields: dict[str, Any]

    def leaves(self) -> Iterator[tuple[str, Any]]:
        for value in self.fields.values():
            for one in value if isinstance(value, list) else [value]:
                if isinstance(one, Struct):
                    yield from one.leaves()
                else:
                    yield one


def read(kind: Any, is_pointer: bool, text: str, where: str,
         leaf: Callable[[str, str, str], Any]) -> Struct:
    """The struct that `text` writes. `leaf`: what stands for a field that is a
    number or a pointer, of its C type, its expression and its name."""
    return _read(kind, is_pointer, expression(text), where, leaf)


def _read(kind: Any, is_pointer: bool, tree: Any, where: str,
          leaf: Callable[[str, str, str], Any]) -> Struct:
    known = {name: of for name, of, *_ in kind._fields_}
    if not (isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name)
            and tree.func.id == kind.__name__ and not tree.args):
        found = ast.unparse(tree) if tree is not None else "no expression"
        raise ValueError(
            f"{where}: found {found!r}, expected the struct's fields by name: "
            f"{kind.__name__}({next(iter(known), '')}=…), of "
            f"{', '.join(known)}")
    fields: dict[str, Any] = {}
    for keyword in tree.keywords:
        name = str(keyword.arg)
        if name not in known:
            raise ValueError(f"{where}: {kind.__name__} has no field {name!r}, "
                             f"expected some of {', '.join(known)}")
        fields[name] = _field(known[name], keyword.value,
                              f"{where}: {kind.__name__}.{name}", leaf)
    return Struct(kind, is_pointer, fields)


def _field(kind: Any, value: ast.expr, where: str,
           leaf: Callable[[str, str, str], Any]) -> Any:
    inner = getattr(kind, "_type_", None)
    if _is_struct(kind) or _is_struct(inner):
        return _read(inner if _is_struct(inner) else kind, _is_struct(inner),
                     value, where, leaf)
    if not issubclass(kind, ctypes.Array):
        return leaf(ctypes_text(kind, where, {}), ast.unparse(value), where)
    if not isinstance(value, ast.List) or len(value.elts) > kind._length_:
        raise ValueError(f"{where}: found {ast.unparse(value)!r}, expected a "
                         f"list of at most {kind._length_}: [x.size(0), 1]")
    return [_field(inner, v, where, leaf) for v in value.elts]


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, ctypes.Structure)


def fill(struct: Struct, value: Callable[[str, Any], Any], kept: list[Any]) -> Any:
    """The struct for one call; `value`: a leaf's. `kept` holds what it points
    to."""
    made = struct.kind()
    for name, given in struct.fields.items():
        if isinstance(given, list):
            for i, one in enumerate(given):
                getattr(made, name)[i] = value(*one)
        elif isinstance(given, Struct):
            inner = fill(given, value, kept)
            kept.append(inner)
            setattr(made, name, ctypes.pointer(inner) if given.is_pointer
                    else inner)
        else:
            of = next(f[1] for f in struct.kind._fields_ if f[0] == name)
            setattr(made, name, _as(of, value(*given)))
    return made


def _as(kind: Any, value: Any) -> Any:
    if kind in (ctypes.c_void_p, ctypes.c_char_p) or not hasattr(
            kind, "contents"):
        return value
    return ctypes.cast(ctypes.c_void_p(value), kind)
