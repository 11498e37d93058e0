# SPDX-License-Identifier: Apache-2.0
"""Python functions with an operator's own signature, made from its tables.

Generic `*args` code would bind arguments by name on every call; a function
with the right parameters is bound by the interpreter, and Dynamo reads it as
any other.
"""

from __future__ import annotations

from typing import Any, Callable

from .._base.rules import Description


def parameters(d: Description, *, plain: bool = False) -> str:
    """The parameter list; `plain`: no defaults, everything positional."""
    parts: list[str] = []
    has_star = False
    for i, p in enumerate(d.params):
        if p["kwonly"] and not has_star and not plain:
            has_star = True
            parts.append("*")
        name = variable(d, i)
        has_default = p["has_default"] and not plain
        parts.append(f"{name}=_default_{i}" if has_default else name)
    return ", ".join(parts)


def variable(d: Description, param: int) -> str:
    return str(d.params[param]["name"])


def arguments(d: Description) -> str:
    """The same, as a call passes it on."""
    return ", ".join(
        f"{variable(d, i)}={variable(d, i)}" if p["kwonly"] else variable(d, i)
        for i, p in enumerate(d.params)
    )


def compile_function(
    d: Description, name: str, source: str, names: dict[str, Any]
) -> Callable[..., Any]:
    """The function `name` of `source`, with `names` and the defaults in scope.

    They are its closure, not its globals: Dynamo looks globals up in the
    module that a function says it is from.
    """
    scope = dict(names)
    for i, value in enumerate(d.defaults):
        scope[f"_default_{i}"] = value
    inner = source.replace("\n", "\n    ")
    maker = f"def _make({', '.join(scope)}):\n    {inner}\n    return {name}\n"
    space: dict[str, Any] = {}
    code = compile(maker, f"<opgraft {d.name}>", "exec")
    exec(code, globals(), space)
    made: Callable[..., Any] = space["_make"](**scope)
    made.__qualname__ = name  # what Python's own errors call it
    return made


def by_position(
    d: Description, function: Callable[..., Any]
) -> Callable[..., Any]:
    """The same, with keyword-only arguments taken by position: a gradient map
    gives its arguments in order."""
    names = [p["name"] for p in d.params if p["kwonly"]]
    first = len(d.params) - len(names)
    if not names:
        return function
    return lambda *args: function(
        *args[:first], **dict(zip(names, args[first:], strict=False)))
