# SPDX-License-Identifier: Apache-2.0
"""opgraft.define: an operator that is a formula, without a file or compiler.

docs/formulas.md has the language.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any, Callable

from .. import _C
from .._base import host, locks
from .module import Module, _function_name, _new_module

_SPACE = "formulas"
_defined: dict[tuple[str, str], "DefinedModule"] = {}  # by namespace and operator


class DefinedModule(Module):
    """One operator. Several share a namespace."""

    def __init__(self, handle: Any, space: str, fields: dict[str, str],
                 digest: str, texts: list[str]) -> None:
        self.fields = fields
        super().__init__(handle, f"<formula {space}:{digest[:12]}>", space,
                         digest, texts)

    def _free_namespace(self) -> str:
        return self.name

    def _reduce(self, d: Any, kind: str) -> Any:
        return _define_again, (self.fields, self.name, d.name, kind)

    def __reduce__(self) -> Any:
        return _module_again, (self.fields, self.name)

    def _announce(self) -> None:
        super()._announce()
        for name in self._descriptions:
            _defined[self.name, name] = self

    def _withdraw(self) -> None:
        super()._withdraw()
        for key in [k for k, m in _defined.items() if m is self]:
            del _defined[key]


def define(
    schema: str,
    row: str,
    shape: str | None = None,
    dtype: str | None = None,
    name: str | None = None,
    *,
    where: str | None = None,
    inplace: str | None = None,
    backward: str | None = None,
    doc: str | None = None,
) -> Callable[..., Any]:
    """Makes a formula an operator, and returns the function to call.

    row: what the results are, over the arguments (docs/formulas.md). It runs
        as vector code that is made at the first call, and without a compiler.
    schema, shape, dtype, where, inplace: as in an operator file
        (docs/shape-rules.md). Without `shape` the tensors broadcast.
    backward: "none" where the gradient is zero. Without it the gradient is
        derived, to any order, and the tangents of forward mode.
    name: "operator" or "namespace::operator"; the default is the schema's name
        in the namespace "formulas".

    RuntimeError where a text is wrong, with its place; ValueError where another
    formula has the name.

        >>> softcap = opgraft.define(
        ...     "softcap(Tensor x, float cap=30.0) -> Tensor",
        ...     row="y = cap * tanh(x / cap)")
        >>> softcap(torch.tensor([-100.0, 0.0, 100.0]))
        tensor([-29.9237,   0.0000,  29.9237])
        >>> norm = opgraft.define(
        ...     "norm(Tensor x, Tensor weight, float eps=1e-6) -> Tensor",
        ...     shape="x[*N, D], weight[D] -> [*N, D]",
        ...     row="s = row_sum(x * x); y = x / sqrt(s / width + eps) * weight")
        >>> norm(torch.ones(2, 4), torch.full((4,), 2.0))
        tensor([[2.0000, 2.0000, 2.0000, 2.0000],
                [2.0000, 2.0000, 2.0000, 2.0000]])
        >>> opgraft.define("f(Tensor x) -> Tensor", row="y = x + z")
        Traceback (most recent call last):
        RuntimeError: f: row: at 8: unknown name 'z'; known: x
          y = x + z
                  ^
    """
    space, schema = _place(schema, name)
    fields = {key: text for key, text in [
        ("schema", schema), ("row", row), ("shape", shape), ("dtype", dtype),
        ("where", where), ("inplace", inplace), ("backward", backward),
        ("doc", doc)] if text is not None}
    m = _module(fields, space)
    return m._functions[_function_name(next(iter(m._descriptions.values())))]


def _place(schema: str, name: str | None) -> tuple[str, str]:
    """The namespace, and the schema with the operator's name."""
    space, _, own = (name or "").rpartition("::")
    space = space or _SPACE
    if not re.fullmatch(r"[A-Za-z_]\w{0,62}", space):
        raise ValueError(
            f"the namespace is {space!r}, expected letters, digits and "
            'underscores: name="namespace::operator"')
    return space, own + schema[schema.find("("):] if own else schema


def _module(fields: dict[str, str], space: str) -> DefinedModule:
    host.prepare()
    digest = hashlib.sha256(repr([space, sorted(fields.items())]).encode()
                            ).hexdigest()
    try:
        handle = _C.adopt_make(space, digest, [(fields,)])
    except RuntimeError as error:
        raise RuntimeError(_with_caret(str(error), fields)) from None
    _, digest, texts = _C.module_info(handle)
    with locks.registry:
        key = space, re.split(r"[\s(]", fields["schema"].strip())[0]
        known = _defined.get(key)
        if known is None:
            return _new_module(handle, space, fields, digest, texts,
                               kind=DefinedModule)
    if known.fields == fields:
        return known
    raise ValueError(
        f"{space}::{key[1]} is a formula already:\n"
        f"  {_shown(known.fields)}\nand this is\n  {_shown(fields)}\n"
        f'give this one another name (name="{space}::{key[1]}_2")')


def _shown(fields: dict[str, str]) -> str:
    return ", ".join(f"{key}={text!r}" for key, text in fields.items())


def _with_caret(text: str, fields: dict[str, str]) -> str:
    """The error, and a caret under the place that it names."""
    found = re.match(r"[\w.]+: (\w+): at (\d+):", text)
    source = fields.get(found[1]) if found else None
    if found is None or source is None:
        return text
    at = int(found[2])
    line = source[source.rfind("\n", 0, at) + 1:].split("\n")[0]
    column = at - (source.rfind("\n", 0, at) + 1)
    return f"{text}\n  {line}\n  {' ' * column}^"


def _module_again(fields: dict[str, str], space: str) -> DefinedModule:
    return _module(fields, space)


def _define_again(fields: dict[str, str], space: str, name: str,
                  kind: str) -> Any:
    """What a pickled operator is: the formula, defined where it is read."""
    return _module(fields, space)._states[kind, name]
