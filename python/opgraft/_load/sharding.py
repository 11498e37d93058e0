# SPDX-License-Identifier: Apache-2.0
"""DTensor's sharding strategies from the declaration (_base/sharding.py).

Registered for every operator once torch.distributed.tensor is imported, which
nothing here does by itself.
"""

from __future__ import annotations

import sys
from typing import Any, Callable

import torch

from .._base import hooks, sharding
from .._base.log import say_once
from .._base.rules import Description
from .._base.sharding import Part, Split
from . import signatures

# The joins as DTensor calls them.
_PARTIAL = {"sum": "sum", "prod": "product", "max": "max", "min": "min"}


def announce(m: Any, undo: list[Callable[[], None]]) -> None:
    """Registers the module's operators when DTensor is there."""
    hooks.when_imported("torch.distributed.tensor",
                        lambda: _register_all(m, undo), undo)


def _register_all(m: Any, undo: list[Callable[[], None]]) -> None:
    for d in m._descriptions.values():
        if sharding.refusal(d) is not None:
            continue
        base = signatures.base(d)
        for form in (base, signatures.inplace(d), signatures.functional(d)):
            if form is None:
                continue
            try:
                _register(m.namespace, d, form, undo)
            except (ImportError, AttributeError, TypeError) as error:
                say_once("this torch's DTensor takes no sharding rules of ours "
                         f"({error}): it knows no operator of opgraft")
                return


def _register(
    space: str, d: Description, form: signatures.Form,
    undo: list[Callable[[], None]],
) -> None:
    from torch.distributed.tensor import DTensor
    from torch.distributed.tensor._op_schema import RuntimeSchemaInfo

    base, _, overload = form.name.partition(".")
    op = getattr(getattr(getattr(torch.ops, space), base),
                 overload or "default")
    propagator = DTensor._op_dispatcher.sharding_propagator
    # Whatever is not a tensor may decide which splits there are.
    names = [p["name"] for p in d.params if p["attr"] is not None]
    propagator.register_op_strategy(
        op, lambda schema: _strategy(d, form, schema),
        RuntimeSchemaInfo(0, names or None, needs_pytree=True))

    def forget() -> None:
        propagator.op_strategy_funcs.pop(op, None)
        propagator.op_to_schema_info.pop(op, None)

    undo.append(forget)


def gradients_alike(grads: tuple[Any, ...]) -> tuple[Any, ...]:
    """The gradients of one call. For a result that nothing reads autograd makes
    plain zeros, also where the others are DTensors."""
    kinds = {type(g) for g in grads if isinstance(g, torch.Tensor)}
    if len(kinds) < 2 or "torch.distributed.tensor" not in sys.modules:
        return grads
    from torch.distributed.tensor import DTensor, Replicate

    shared = [g for g in grads if isinstance(g, DTensor)]
    if not shared:
        return grads
    mesh = shared[0].device_mesh
    return tuple(
        DTensor.from_local(g, mesh, [Replicate()] * mesh.ndim, run_check=False)
        if type(g) is torch.Tensor else g for g in grads)


def _placement(part: Part) -> Any:
    from torch.distributed.tensor import Partial, Replicate, Shard

    if part is None:
        return Replicate()
    return Shard(part) if isinstance(part, int) else Partial(_PARTIAL[part])


def _spec(value: Any) -> Any:
    """What the strategy of an argument says of it: something with a shape."""
    children = getattr(value, "children", None)
    if children is not None:
        return [_spec(c) for c in children]
    if isinstance(value, (list, tuple)):
        return [_spec(v) for v in value]
    strategies = getattr(value, "strategies", None)
    return value if strategies is None else strategies[0].output_spec


def _outputs(
    d: Description, form: signatures.Form, split: Split
) -> list[Part] | None:
    """The parts of what the form returns; None where it cannot be split so:
    what is written must stay where it is."""
    if form.kind == "inplace":
        tensor = d.params[form.inplace_param]["tensor"]
        return [] if split.args[tensor] == split.fresh[0] else None
    if form.kind == "functional":
        tensors = [d.params[p]["tensor"] for p in d.mutated]
        return split.fresh + [split.mutated.get(t) for t in tensors]
    if any(isinstance(part, str) for part in split.mutated.values()):
        return None
    return split.fresh


def _whole(d: Description, values: list[Any]) -> Split:
    tensors = [p["tensor"] for p, v in zip(d.params, values)
               if p["tensor"] is not None and v is not None and not p["list"]]
    return Split("", {t: None for t in tensors}, [None] * len(d.fresh),
                 {d.params[p]["tensor"]: None for p in d.mutated})


def _written(d: Description, form: signatures.Form) -> set[int]:
    """The tensors that the form writes."""
    params = {"base": d.mutated, "inplace": [form.inplace_param]}.get(
        form.kind, [])
    return {d.params[p]["tensor"] for p in params}


def _strategy(d: Description, form: signatures.Form, schema: Any) -> Any:
    from torch.distributed.tensor._ops.utils import (
        expand_to_full_mesh_op_strategy as expand,
    )

    args = [_spec(v) for v in schema.args_schema]
    kwargs = {k: _spec(v) for k, v in schema.kwargs_schema.items()}
    values = d.bind(tuple(args), kwargs)
    mesh = schema.get_mesh_from_args()
    order = _order(d, len(args), kwargs)
    splits = [_whole(d, values),
              *sharding.Splitter(d, values, mesh.size()).all()]
    rows, count = [], 0
    for split in splits:
        outs = _outputs(d, form, split)
        if outs is None:
            continue
        count = len(outs)
        ins = [_placement(split.args.get(t)) for i in order
               for t in _tensors(d, i, values[i])]
        rows.append([_placement(p) for p in outs] + ins)
    found = expand(mesh, schema, rows, input_index=count)
    written = _written(d, form)
    if written:
        _keep_written(d, form, found, order, values, written)
    return found


def _order(
    d: Description, positional: int, kwargs: dict[str, Any]
) -> list[int]:
    """The given parameters in the order of the call."""
    return [*range(positional), *(d.by_name[k] for k in kwargs)]


def _tensors(d: Description, param: int, value: Any) -> list[int]:
    """An entry for each tensor of an argument."""
    tensor = d.params[param]["tensor"]
    if tensor is None or value is None:
        return []
    if d.params[param]["list"]:
        return [-1 for v in value if v is not None]
    return [tensor]


def _keep_written(
    d: Description, form: signatures.Form, found: Any, order: list[int],
    values: list[Any], written: set[int],
) -> None:
    """Leaves the strategies in which what is written stays as it is sharded:
    the write would go to a copy."""
    flat = [(t, values[i]) for i in order for t in _tensors(d, i, values[i])]
    kept = [s for s in found.strategies
            if all(t not in written or s.input_specs[k].placements
                   == value.placements for k, (t, value) in enumerate(flat))]
    if not kept:
        how = ", ".join(
            f"{next(p['name'] for p in d.params if p['tensor'] == t)} "
            f"{tuple(value.placements)}" for t, value in flat if t in written)
        raise RuntimeError(
            f"{form.name}: writes {how}, which it cannot compute so sharded; "
            "redistribute it first, or call the form that returns the result")
    found.strategies[:] = kept
