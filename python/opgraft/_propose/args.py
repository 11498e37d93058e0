# SPDX-License-Identifier: Apache-2.0
"""What sample calls say of the arguments: names, kinds, defaults."""

from __future__ import annotations

import ast
import inspect
import re
from dataclasses import dataclass, field
from typing import Any, Callable, Sequence

import torch

from .._base.counted import counted

_FLOATING = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_INDEX = (torch.int32, torch.int64)
# Types that are tried in place of a sample's.
ALTERNATIVES = {**dict.fromkeys(_FLOATING, _FLOATING),
                **dict.fromkeys(_INDEX, _INDEX)}
_NAMES = {"Tensor": "xyzw", "int": "nmk", "float": ("alpha", "beta"),
          "bool": ("flag",), "str": ("mode",)}
_MISSING = inspect.Parameter.empty


@dataclass
class Param:
    name: str
    default: Any = _MISSING
    is_keyword_only: bool = False
    values: list[Any] = field(default_factory=list)  # by sample
    kind: str = ""  # in the schema; "": not known
    is_optional: bool = False

    @property
    def is_tensor(self) -> bool:
        return self.kind == "Tensor"

    def text(self, letter: str | None) -> str:
        kind = (self.kind or "Tensor") + (f"({letter}!)" if letter else "")
        text = f"{kind}{'?' if self.is_optional else ''} {self.name}"
        if self.default is _MISSING:
            return text
        return f"{text}={_literal(self.default)}"


def _literal(value: Any) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_literal(v) for v in value)}]"
    return repr(value)


def params_of(fn: Callable[..., Any], samples: Sequence[Any]) -> list[Param]:
    if not samples:
        raise ValueError("samples is empty; expected calls such as (x, 2)")
    given = [_split(s) for s in samples]
    known = _declared(fn)
    if known is None:
        if any(k for _, k in given):
            raise ValueError(
                f"{fn!r} does not tell its parameters' names, so that samples "
                "are tuples of all its arguments")
        known = [Param(f"arg{i}") for i in range(max(len(a) for a, _ in given))]
    for at, (args, kwargs) in enumerate(given):
        _bind(known, at, args, dict(kwargs))
    for p in known:
        p.kind, p.is_optional = _kind(p)
    _rename(known)
    return known


def _split(sample: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if isinstance(sample, dict):
        return (), sample
    if isinstance(sample, torch.Tensor):
        return (sample,), {}
    if (len(sample) == 2 and isinstance(sample[0], tuple)
            and isinstance(sample[1], dict)):
        return sample[0], sample[1]
    return tuple(sample), {}


def _bind(
    params: list[Param], at: int, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    if len(args) > len(params):
        raise ValueError(f"sample {at} has {counted(len(args), 'argument')}, "
                         f"the callable takes {len(params)}")
    for i, p in enumerate(params):
        if i < len(args):
            p.values.append(args[i])
        elif p.name in kwargs:
            p.values.append(kwargs.pop(p.name))
        elif p.default is not _MISSING:
            p.values.append(p.default)
        else:
            raise ValueError(f"sample {at} has no {p.name}")
    if kwargs:
        raise ValueError(f"sample {at} has {', '.join(kwargs)}, it takes "
                         f"{', '.join(p.name for p in params)}")


def _declared(fn: Callable[..., Any]) -> list[Param] | None:
    """By signature, or by the first line of pybind11's and nanobind's docs."""
    try:
        found = list(inspect.signature(fn).parameters.values())
    except (ValueError, TypeError):
        return _documented(fn)
    if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in found):
        return None
    return [Param(p.name, p.default, p.kind == p.KEYWORD_ONLY) for p in found]


def _documented(fn: Callable[..., Any]) -> list[Param] | None:
    lines = (getattr(fn, "__doc__", None) or "").strip().splitlines()
    match = re.match(r"\w+\((.*)\)\s*(?:->.*)?$", lines[0]) if lines else None
    if match is None:
        return None
    try:
        tree = ast.parse(f"def f({match[1]}): pass").body[0]
    except SyntaxError:
        return None
    assert isinstance(tree, ast.FunctionDef)
    a = tree.args
    if a.vararg or a.kwarg:
        return None
    plain = [*a.posonlyargs, *a.args]
    defaults = [None] * (len(plain) - len(a.defaults)) + list(a.defaults)
    out = [Param(p.arg, _value(d)) for p, d in zip(plain, defaults)]
    return out + [Param(p.arg, _value(d), True)
                  for p, d in zip(a.kwonlyargs, a.kw_defaults)]


def _value(node: ast.expr | None) -> Any:
    if node is None:
        return _MISSING
    try:
        return ast.literal_eval(node)
    except ValueError:
        return _MISSING


def _kind(p: Param) -> tuple[str, bool]:
    given = [v for v in p.values if v is not None]
    optional = len(given) < len(p.values) or p.default is None
    kinds = {_kind_of(v, p.name) for v in given}
    if kinds == {"int", "float"}:
        kinds = {"float"}
    if kinds == {"int[]", "float[]"}:
        kinds = {"float[]"}
    if len(kinds) > 1:
        raise ValueError(f"{p.name} is {' and '.join(sorted(kinds))} in the "
                         "samples, expected one kind")
    return (kinds.pop() if kinds else ""), optional


def _kind_of(value: Any, name: str) -> str:
    plain = {bool: "bool", int: "int", float: "float", str: "str",
             torch.dtype: "ScalarType", torch.device: "Device"}
    if isinstance(value, torch.Tensor):
        if value.device.type != "cpu":
            raise ValueError(f"{name} is on {value.device}, expected the CPU")
        return "Tensor"
    if isinstance(value, (list, tuple)):
        inner = {_kind_of(v, name) for v in value} or {"int"}
        if inner == {"int", "float"}:
            inner = {"float"}
        if len(inner) == 1 and inner <= {"Tensor", "int", "float", "bool",
                                         "str"}:
            return inner.pop() + "[]"
    elif type(value) in plain:
        return plain[type(value)]
    raise ValueError(
        f"{name} is {value!r:.80}, for which a schema has no type; expected "
        "tensors, numbers, text or lists of them. For anything else adopt a "
        "function that makes it")


def _rename(params: list[Param]) -> None:
    """Names for what pybind11 calls arg0, arg1…"""
    taken = {p.name for p in params}
    if not all(re.fullmatch(r"arg\d+", p.name) for p in params):
        return
    for p in params:
        for name in _NAMES.get(p.kind, ()):
            if name not in taken:
                taken.add(name)
                p.name = name
                break
