# SPDX-License-Identifier: Apache-2.0
"""vmap from the shape rule: a leading pack absorbs the batch, else a loop.

`x[*N, I], weight[O, I] -> [*N, O]` says that any number of leading dims may
stand before I, so a batch of x is one more of them: one call. A batch of
weight is not, and is looped over; the loops are counted.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Callable

import torch

from .._base.absorb import Absorb
from .._base.log import say_once
from .._base.rules import Description
from . import dispatcher
from .operators import Operator

loops: Counter[str] = Counter()
"""Calls that vmap made by a loop, by operator."""


def _front(tensor: torch.Tensor, dim: int | None, size: int) -> torch.Tensor:
    if dim is None:
        return tensor.unsqueeze(0).expand(size, *tensor.shape)
    return tensor.movedim(dim, 0)


def _absorbed(
    d: Description, plan: Absorb, size: int, values: list[Any], dims: list[Any]
) -> list[Any] | None:
    """The values of one call that does the whole batch, or None."""
    tensors = [i for i, p in enumerate(d.params) if p["tensor"] is not None]
    for i in tensors:
        if dims[i] is not None and not plan.takes(d.params[i]["tensor"]):
            return None
    out = list(values)
    carriers = [
        i for i in tensors
        if plan.takes(d.params[i]["tensor"]) and values[i] is not None
    ]
    for i in carriers:
        out[i] = _front(values[i], dims[i], size)
    if plan.has_broadcast:
        # Logical dims align at the right: fill up behind the batch.
        rank = max(out[i].dim() for i in carriers)
        for i in carriers:
            missing = rank - out[i].dim()
            shape = (size,) + (1,) * missing + tuple(out[i].shape[1:])
            out[i] = out[i].reshape(shape)
    picked = {attr for attr, tensor in plan.picks if plan.takes(tensor)}
    for i, p in enumerate(d.params):
        if p["attr"] in picked and out[i] >= 0:
            out[i] += 1
    return out


def _slice(value: Any, dim: Any, index: int) -> Any:
    if isinstance(value, (list, tuple)) and isinstance(dim, (list, tuple)):
        return [_slice(v, b, index) for v, b in zip(value, dim, strict=False)]
    return value if dim is None else value.movedim(dim, 0)[index]


def _stack(results: list[Any]) -> Any:
    first = results[0]
    if first is None or isinstance(first, (int, torch.SymInt)):
        return first
    if isinstance(first, (list, tuple)):
        return type(first)(_stack([r[i] for r in results])
                           for i in range(len(first)))
    return torch.stack(results)


def _zero_dims(result: Any) -> Any:
    if isinstance(result, (list, tuple)):
        return type(result)(_zero_dims(r) for r in result)
    return 0 if isinstance(result, torch.Tensor) else None


def _invoke(d: Description, op: Callable[..., Any], values: list[Any]) -> Any:
    args = [v for v, p in zip(values, d.params, strict=False) if not p["kwonly"]]
    kwargs = {p["name"]: v for v, p in zip(values, d.params, strict=False) if p["kwonly"]}
    return op(*args, **kwargs)


def register(
    d: Description, name: str, op: Operator, library: torch.library.Library
) -> None:
    """torch.library.register_vmap without its look for the operator and the
    library; the public call where its parts moved."""
    batched = rule(d, op)
    try:
        from torch._functorch.autograd_function import (
            custom_function_call_vmap_helper as call,
        )
        from torch._functorch.pyfunctorch import (
            retrieve_current_functorch_interpreter as current,
        )
    except ImportError:
        torch.library.register_vmap(op.overload, batched, lib=library)
        return

    def kernel(keys: Any, *args: Any, **kwargs: Any) -> Any:
        return call(current(), batched, op.overload, *args, **kwargs)

    dispatcher.impl(library, name, kernel, "FuncTorchBatched", with_keyset=True)


def rule(d: Description, op: Callable[..., Any]) -> Callable[..., Any]:
    """The function that torch.library.register_vmap takes."""
    plans: list[Absorb] = []  # made by the first call

    def batched(info: Any, in_dims: Any, *args: Any, **kwargs: Any) -> Any:
        if not plans:
            plans.append(Absorb(d))
        plan = plans[0]
        if d.is_data_dependent:
            raise NotImplementedError(
                f"{d.name}: vmap cannot batch a result whose size depends on "
                "values"
            )
        values = d.bind(args, kwargs)
        dims = list(in_dims) + [None] * (len(values) - len(in_dims))
        size = info.batch_size
        one = _absorbed(d, plan, size, values, dims) if plan.packs else None
        if one is not None:
            result = _invoke(d, op, one)
            return result, _zero_dims(result)
        loops[d.name] += 1
        say_once(f"{d.name}: vmap runs it in a loop of {size} calls")
        results = [
            _invoke(d, op, [_slice(v, b, i) for v, b in zip(values, dims, strict=False)])
            for i in range(size)
        ]
        stacked = _stack(results)
        return stacked, _zero_dims(stacked)

    return batched
