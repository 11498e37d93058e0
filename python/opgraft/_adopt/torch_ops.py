# SPDX-License-Identifier: Apache-2.0
"""Operators that torch.ops has already: what they lack is added, and their
kernels stay.

A shape rule becomes the fake kernel, a gradient the autograd formula, and a
mutating operator gets its functional form. Nothing is rebuilt, and nothing
that is there is replaced.
"""

from __future__ import annotations

from typing import Any, Callable

import torch

from .._base.rules import Description
from .._load import batch, dispatcher, grad, signatures
from .._load.module import (
    _fake,
    _functional_kernel,
    _Live,
)
from .._load.operators import Operator
from . import adopted, gradients

_completed: dict[str, "Completion"] = {}


class Completion:
    """What was added to one operator; drop() takes it away again."""

    def __init__(self, op: Any, d: Description, told: dict[str, Any]) -> None:
        self.op = op
        self.told = told  # what adopt was given
        self.namespace = op._schema.name.partition("::")[0]
        self._live: Any = _Live(self.namespace)
        self.added: list[str] = []
        self.d = d

    def drop(self) -> None:
        self._live.drop()
        self.forget()

    def forget(self) -> None:
        """What torch's Python dispatcher found before: a graph that broke on
        the operator left there that it has no gradient."""
        self.op._dispatch_cache.clear()


def is_operator(fn: Any) -> bool:
    return isinstance(fn, (torch._ops.OpOverload, torch._ops.OpOverloadPacket))


def _schema_text(op: Any) -> str:
    text = str(op._schema).partition("::")[2]
    return text


def _has_fake(op: Any) -> bool:
    from torch._library.simple_registry import singleton

    name = op._schema.name
    if singleton.find(name).fake_impl.kernel is not None:
        return True
    keys = ("Meta", "CompositeExplicitAutograd", "CompositeImplicitAutograd")
    return any(torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), k)
               for k in keys)


def _has_gradient(op: Any) -> bool:
    return any(
        torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), k)
        for k in ("Autograd", "AutogradCPU", "CompositeImplicitAutograd"))


def complete(
    fn: Any, shape: str | None, dtype: str | None, backward: Any,
    where: str | None, flags: int,
) -> Callable[..., Any]:
    """Adds to torch.ops.ns.op what its declaration says and it lacks."""
    op = _one(fn)
    known = _completed.pop(op.name(), None)
    if known is not None:
        known.drop()
    if shape is None:
        raise ValueError(
            f"{op.name()}: expected a shape rule for "
            f"{_schema_text(op)}: shape=\"x[*N] -> [*N]\""
        )
    fields = {"schema": _schema_text(op), "shape": shape, "dtype": dtype,
              "where": where, "flags": flags}
    plain = adopted.describe([dict(fields)])[0]
    second = None
    if backward is not None:
        fields["backward"], second = gradients.plan(plain, backward)
    described = adopted.describe(
        [fields, second[1]] if second is not None else [fields])
    d = described[0]
    made = Completion(op, d, {
        "schema": fields["schema"], "shape": shape, "dtype": dtype,
        "where": where, "backward": backward,
        "batch": "loop" if flags else "pack"})
    try:
        _add(made, op, d, second[0] if second is not None else None, backward)
    except BaseException:
        made.drop()
        raise
    made.forget()
    _completed[op.name()] = made
    return op


def _add(
    made: Completion, op: Any, d: Description, backward: Any, wanted: Any
) -> None:
    live, form = made._live, signatures.base(d)
    if not _has_fake(op):
        dispatcher.register_fake(live.library, op._schema.name, _fake(d, form))
        made.added.append("shape function")
    functional = signatures.functional(d)
    name = op.name().partition("::")[2]
    own = Operator.of(op)
    has_gradient = _has_gradient(op)
    if wanted is not None and has_gradient:
        raise ValueError(
            f"{op.name()}: has a gradient already; leave backward= out"
        )
    if functional is not None and not has_gradient:
        grad.register_write(d, name, functional.name, own, live.library)
    elif wanted is not None:
        live.undo.append(
            grad.register(d, name, own, backward, live.library))
    if wanted is not None:
        made.added.append("gradient")
    space = getattr(torch.ops, made.namespace)
    if functional is not None and not hasattr(space, functional.name):
        live.library.define(functional.schema, tags=functional.tags)
        live.names.append(functional.name)
        dispatcher.register_fake(
            live.library, f"{made.namespace}::{functional.name}",
            _fake(d, functional))
        _functional_kernel(made, d, functional, op)  # type: ignore[arg-type]
        if not has_gradient:
            live.undo.append(grad.register(
                signatures.functional_description(d), functional.name,
                Operator.of(getattr(space, functional.name).default), backward,
                live.library))
        made.added.append(f"functional form {functional.name}")
    if not d.mutated and not torch._C._dispatch_has_kernel_for_dispatch_key(
            op.name(), "FuncTorchBatched"):
        batch.register(d, name, own, live.library)
        made.added.append("batch rule")


def _one(op: Any) -> Any:
    return op.default if isinstance(op, torch._ops.OpOverloadPacket) else op


def completion(op: Any) -> Completion:
    made = _completed.get(_one(op).name())
    if made is None:
        raise ValueError(f"{_one(op).name()} was not completed by "
                         "opgraft.adopt; adopt it with its shape rule first")
    return made


def fresh_only(made: Completion) -> Callable[..., Any]:
    """The operator as adopted callables are: what it returns is fresh."""
    is_fresh = [r["alias"] is None for r in made.d.results]

    def call(*values: Any, **named: Any) -> Any:
        out = made.op(*values, **named)
        if all(is_fresh):
            return out
        every = out if isinstance(out, (tuple, list)) else (out,)
        fresh = tuple(o for o, keep in zip(every, is_fresh) if keep)
        return fresh[0] if len(fresh) == 1 else fresh or None

    return call


def undo(op: Any) -> None:
    """Takes away what `complete` added."""
    made = completion(op)
    del _completed[made.op.name()]
    made.drop()
