# SPDX-License-Identifier: Apache-2.0
"""Modules of adopted operators: how they are named, kept and taken back."""

from __future__ import annotations

import hashlib
import re
import warnings
from typing import Any, Callable

from .. import _C
from .._base import host, locks
from .._base.log import say
from .._base.rules import Description
from .._load.module import Module
from .origin import Origin

# One operator as it goes to C: its texts, which kind of callable stands behind
# it, and what that kind's reader takes.
Fields = dict[str, Any]
Payload = Callable[[Description], tuple[str, Any]]

_live: dict[tuple[str, str], "AdoptedModule"] = {}  # by namespace and operator
_functions: dict[int, "AdoptedModule"] = {}  # by the id of what adopt returned


class AdoptedModule(Module):
    """Operators whose kernels call what someone else wrote.

    Like a loaded module, but that several share a namespace, and that what
    they call lives as long as they do.
    """

    def __init__(
        self, handle: Any, space: str, origins: dict[str, Origin],
        texts: list[str], digest: str, calls_python: set[str],
    ) -> None:
        self._origins = origins
        self._python_ops = calls_python
        super().__init__(handle, f"<adopted {space}:{digest[:12]}>", space,
                         digest, texts)

    def _calls_python(self, d: Description) -> bool:
        return d.name in self._python_ops

    def _free_namespace(self) -> str:
        return self.name

    def _reduce(self, d: Description, kind: str) -> Any:
        return (_find, (self.namespace, d.name, kind, self.hash))

    def _announce(self) -> None:
        super()._announce()
        for name in self._origins:
            _live[self.name, name] = self
        for function in self._functions.values():
            _functions[id(function)] = self

    def _withdraw(self) -> None:
        super()._withdraw()
        for key in [k for k, m in _live.items() if m is self]:
            del _live[key]
        for at in [k for k, m in _functions.items() if m is self]:
            del _functions[at]

    def __reduce__(self) -> Any:
        raise TypeError(
            f"{self!r} cannot be pickled: what it calls lives in this process; "
            "adopt it there as well"
        )


def _find(space: str, name: str, kind: str, digest: str) -> Any:
    """What a pickled operator calls: the same adoption must be there."""
    m = _live.get((space, name))
    if m is None or m.hash != digest:
        state = "another one is" if m is not None else "none is"
        raise RuntimeError(
            f"{space}::{name} was adopted where it was pickled, and {state} "
            "here; run the same adoption before unpickling"
        )
    return m._states[kind, name]


def describe(fields: list[Fields]) -> list[Description]:
    """The declarations as the C library reads them; RuntimeError with its
    sentence where they are wrong."""
    handle = _C.adopt_make("declared", "", [(f,) for f in fields])
    return [Description(text) for text in _C.module_info(handle)[2]]


def make(
    space: str, operators: list[tuple[Fields, Payload, Origin]], key: str
) -> AdoptedModule:
    """Registers operators, each (declaration, its payload, its origin)."""
    host.prepare()
    if not re.fullmatch(r"[A-Za-z_]\w{0,62}", space):
        raise ValueError(
            f"the namespace is {space!r}, expected letters, digits and "
            'underscores: name="namespace::operator"'
        )
    described = describe([fields for fields, _, _ in operators])
    payloads = [p(d) for d, (_, p, _) in zip(described, operators)]
    texts = repr([sorted(f.items()) for f, _, _ in operators])
    digest = hashlib.sha256(f"{space}{texts}{key}".encode()).hexdigest()
    origins = {d.name: o for d, (_, _, o) in zip(described, operators)}
    handle = _C.adopt_make(space, digest, [
        (fields, kind, payload)
        for (fields, _, _), (kind, payload) in zip(operators, payloads)
    ])
    _, digest, texts_out = _C.module_info(handle)
    calls_python = {d.name for d, (kind, _) in zip(described, payloads)
                    if kind == "python"}

    def register() -> AdoptedModule:
        return AdoptedModule(handle, space, origins, texts_out, digest,
                             calls_python)

    with locks.registry:
        if not _held(space, origins):
            return register()
    with locks.between_compiles():
        for known in _held(space, origins):
            _replace(known, space, origins, digest)
        return register()


def _held(space: str, origins: dict[str, Origin]) -> set[AdoptedModule]:
    """The modules that have one of these operators now."""
    found = (_live.get((space, name)) for name in origins)
    return {m for m in found if m is not None}


def _replace(known: AdoptedModule, space: str, origins: dict[str, Origin],
             digest: str) -> None:
    """Withdraws what adopted the same callable; of another one, raises. A
    gradient's callable follows its operator's."""
    name, origin = next(iter(origins.items()))
    own = name  # which name= names
    held = known._origins.get(name)
    if held is None:  # one's operator is the other's gradient
        name = next(n for n in origins if n in known._origins)
        origin, held = origins[name], known._origins[name]
    if not (origin.is_same(held) or origin.is_redefined(held)):
        raise ValueError(
            f"{space}::{name} is an operator already, adopted from "
            f"{held}, and this is {origin}; give this one another name "
            f'(name="{space}::{own}_2"), or unadopt the first'
        )
    is_equal = known.hash == digest and all(
        o.is_same(known._origins[n]) for n, o in origins.items()
        if n in known._origins)
    if not is_equal:
        warnings.warn(
            f"{space}::{name} is adopted anew, with another "
            "declaration or code; what was adopted before cannot be "
            "compiled any more", RuntimeWarning, stacklevel=4)
    say(f"{space}::{name} is adopted anew")
    known._withdraw()


def is_adopted(function: Any) -> bool:
    """Whether it is still what adopt returned: adopting anew replaces it."""
    return id(function) in _functions


def module_of(function: Any) -> AdoptedModule:
    found = _functions.get(id(function))
    if found is None:
        raise ValueError(
            f"{function!r} is not what opgraft.adopt, opgraft.define or a module "
            "gave")
    return found


def names_in(gm: Any) -> list[str]:
    """The adopted operators that a graph calls, each with its origin."""
    found = {}
    for node in gm.graph.nodes:
        for op in (node.target, *node.args[:1]):  # one that was functionalised
            schema = getattr(op, "_schema", None)
            space, _, name = getattr(schema, "name", "").partition("::")
            module = _live.get((space, name))
            if module is not None:
                found[f"{space}::{name}"] = module._origins[name]
    return [f"{name} is adopted from {origin}" for name, origin in found.items()]
