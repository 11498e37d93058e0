# SPDX-License-Identifier: Apache-2.0
"""Where an adopted callable comes from, and whether two are one.

Adopting one callable again replaces its operator, as in a notebook; another
callable must not. Module and name do not tell: all lambdas of a module share
them, and so do bound methods of one class, closures and partials.
"""

from __future__ import annotations

import functools
import sys
import types
from dataclasses import dataclass
from typing import Any


def name_of(fn: Any) -> str:
    return getattr(fn, "__name__", None) or type(fn).__name__


@dataclass
class Origin:
    """`text` is for people, and equal in another process; `what` is the
    callable, or the address or file of C code."""

    text: str
    what: Any

    def is_same(self, other: "Origin") -> bool:
        return self.text == other.text and is_same(self.what, other.what)

    def is_redefined(self, other: "Origin") -> bool:
        """Whether this is the function that now has the other one's name."""
        return (self.text == other.text
                and isinstance(self.what, types.FunctionType)
                and _named(self.what) is self.what
                and _named(other.what) is self.what)

    def __str__(self) -> str:
        return f"{self.text}{_place(self.what)}"


def origin_of(fn: Any) -> Origin:
    if isinstance(fn, functools.partial):
        return Origin(f"partial of {origin_of(fn.func).text}", fn)
    where = getattr(fn, "__module__", None) or type(fn).__module__
    what = getattr(fn, "__qualname__", None) or name_of(fn)
    return Origin(f"{where}.{what}", fn)


def _place(fn: Any) -> str:
    """What tells callables of one name apart, for people."""
    if isinstance(fn, functools.partial):
        named = [f"{k}={v!r}" for k, v in fn.keywords.items()]
        return f" ({', '.join([*map(repr, fn.args), *named])})"
    if isinstance(fn, types.MethodType):
        return f" of {_short(fn.__self__)}"
    code = getattr(fn, "__code__", None)
    if isinstance(code, types.CodeType):
        return f" ({code.co_filename}:{code.co_firstlineno})"
    if isinstance(fn, (int, str)):
        return f" ({fn:#x})" if isinstance(fn, int) else f" ({fn})"
    return f" ({_short(fn)})"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _named(fn: Any) -> Any:
    """What the callable's module has under its name; None where that is not a
    function's name (a lambda's, a local function's)."""
    found: Any = sys.modules.get(getattr(fn, "__module__", None) or "")
    for part in getattr(fn, "__qualname__", "").split("."):
        found = getattr(found, part, None)
    return found


def is_same(a: Any, b: Any) -> bool:
    """Whether two callables are equal in code and state, as Python sees them."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, types.FunctionType):
        return _same_function(a, b)
    if isinstance(a, types.MethodType):
        return a.__self__ is b.__self__ and is_same(a.__func__, b.__func__)
    if isinstance(a, functools.partial):
        return (is_same(a.func, b.func) and _same_value(a.args, b.args)
                and _same_value(a.keywords, b.keywords))
    if isinstance(a, types.BuiltinFunctionType):
        holders = types.ModuleType, type(None)
        return a == b or (_is_of_module(a, holders) and
                          _is_of_module(b, holders))
    wrapped = getattr(a, "__wrapped__", None)
    if wrapped is not None:
        return is_same(wrapped, getattr(b, "__wrapped__", None))
    if isinstance(a, (int, str)):
        return bool(a == b)
    # Of an extension's own type of functions (nanobind's), the name is its
    # identity; instances of classes have none.
    return getattr(a, "__qualname__", None) is not None


def _is_of_module(fn: Any, holders: tuple[type, ...]) -> bool:
    """A function of an extension, not a method bound to an object."""
    return isinstance(fn.__self__, holders) or (
        type(fn.__self__).__name__ in ("PyCapsule", "Lib") or
        type(fn.__self__).__name__.startswith("pybind11"))


def _same_function(a: Any, b: Any) -> bool:
    return (a.__globals__ is b.__globals__
            and _same_code(a.__code__, b.__code__)
            and _same_value(a.__defaults__, b.__defaults__)
            and _same_value(a.__kwdefaults__, b.__kwdefaults__)
            and _same_value(_cells(a), _cells(b))
            and is_same(getattr(a, "__wrapped__", None),
                        getattr(b, "__wrapped__", None)))


def _cells(fn: Any) -> tuple[Any, ...]:
    found = []
    for cell in fn.__closure__ or ():
        try:
            found.append(cell.cell_contents)
        except ValueError:  # not set yet
            found.append(cell)
    return tuple(found)


def _same_code(a: types.CodeType, b: types.CodeType) -> bool:
    """Equal but for where it stands in its file."""
    return (a.co_code == b.co_code and a.co_names == b.co_names
            and a.co_varnames == b.co_varnames
            and a.co_freevars == b.co_freevars
            and a.co_argcount == b.co_argcount
            and a.co_kwonlyargcount == b.co_kwonlyargcount
            and a.co_flags == b.co_flags
            and len(a.co_consts) == len(b.co_consts)
            and all(_same_value(x, y)
                    for x, y in zip(a.co_consts, b.co_consts, strict=True)))


_PLAIN = (int, float, complex, str, bytes, bool, type(None), type(...))


def _same_value(a: Any, b: Any) -> bool:
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, types.CodeType):
        return _same_code(a, b)
    if isinstance(a, _PLAIN):
        return repr(a) == repr(b)  # 0.0 and -0.0 differ, nan is nan
    if isinstance(a, (tuple, list)):
        return len(a) == len(b) and all(map(_same_value, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(
            _same_value(a[k], b[k]) for k in a)
    return callable(a) and is_same(a, b)
