# SPDX-License-Identifier: Apache-2.0
"""Derivatives of formulas that are made when they are asked for.

An operator's gradient is one of its module (or derived with it, where it is a
formula). A gradient's own gradient, and tangents (forward.py), are modules of one
operator each, in the same namespace.
"""

from __future__ import annotations

from typing import Any, Callable

from .. import _C
from .._base import locks
from .._base.rules import Description
from . import generate
from . import module as modules


class Derivative(modules.Module):
    """A module of one operator, derived from one of `origin`'s."""

    def __init__(self, handle: Any, origin: "modules.Module", name: str,
                 kind: int) -> None:
        self.origin, self.of, self.kind = origin, name, kind
        _, digest, texts = _C.module_info(handle)
        super().__init__(handle, f"<derived from {origin.name}.{name}>",
                         origin.name, digest, texts)

    def _free_namespace(self) -> str:
        return self.origin.namespace

    def _reduce(self, d: Any, kind: str) -> Any:
        return _again, (self.origin, self.of, self.kind, d.name, kind)

    def __reduce__(self) -> Any:
        return derive, (self.origin, self.of, self.kind)

    @property
    def description(self) -> Description:
        return next(iter(self._descriptions.values()))

    @property
    def function(self) -> Callable[..., Any]:
        name = modules._function_name(self.description)
        return generate.by_position(self.description, self._functions[name])


def derive(origin: "modules.Module", name: str, kind: int) -> Derivative:
    """Made once, and taken away with its origin."""
    with locks.registry:
        made = origin._derived.get((name, kind))
        if made is None:
            handle = _C.module_derive(origin._handle, name, kind)
            made = modules._new_module(handle, origin, name, kind,
                                       kind=Derivative)
            origin._derived[name, kind] = made
    return made


def _again(origin: "modules.Module", of: str, kind: int, name: str, form: str
           ) -> Any:
    return derive(origin, of, kind)._states[form, name]


modules.Module._derive = staticmethod(derive)
