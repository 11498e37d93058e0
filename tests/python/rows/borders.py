# SPDX-License-Identifier: Apache-2.0
"""Calls beside a call: each argument in turn at the borders of what it may be,
of which many are refused."""

from __future__ import annotations

import random
from typing import Any, Iterator

import torch
from recorded import Call
from torch.utils._pytree import tree_flatten, tree_unflatten

INTS = (0, -1, -5, 999)  # no number that asks for much memory
FLOATS = (0.0, -0.5, 1.5, float("nan"), float("inf"))
INDEX_TYPES = (torch.int64, torch.int32, torch.int16, torch.int8)


def tensors_of(leaves: list[Any]) -> list[torch.Tensor]:
    return [x for x in leaves if isinstance(x, torch.Tensor)]


def with_element(x: torch.Tensor, value: float, rng: random.Random
                 ) -> torch.Tensor:
    """One of its elements is the value, at any place."""
    y = x.detach().clone()
    at = tuple(rng.randrange(n) for n in x.shape)
    y[at] = value
    return y


def values_of(x: Any, sizes: set[int]) -> list[Any]:
    """Sizes are those of all tensors of the call."""
    if isinstance(x, torch.Tensor):
        if x.numel() == 0:
            return []
        if x.dtype in INDEX_TYPES:
            most = torch.iinfo(x.dtype).max
            found = {*INTS[:3], *sizes, *(-n - 1 for n in sizes)}
            return sorted(v for v in found if abs(v) <= most)
        return list(FLOATS) if x.is_floating_point() else []
    if isinstance(x, bool):
        return [not x]
    if isinstance(x, int):
        return sorted({*INTS, *sizes, *(-n - 1 for n in sizes)} - {x})
    return [v for v in FLOATS if v != x] if isinstance(x, float) else []


def borders(call: Call, rng: random.Random) -> Iterator[tuple[str, Call]]:
    """Each with the name of what differs. One argument differs, or the type of
    all floats or indices, or one dim of all tensors is empty."""
    leaves, spec = tree_flatten((call.args, call.kwargs))
    sizes = {n for x in tensors_of(leaves) for n in x.shape}

    def with_leaves(changed: dict[int, Any]) -> Call:
        return Call(call.target, *tree_unflatten(
            [changed.get(i, x) for i, x in enumerate(leaves)], spec))

    for i, x in enumerate(leaves):
        for value in values_of(x, sizes):
            changed = (with_element(x, value, rng)
                       if isinstance(x, torch.Tensor) else value)
            yield f"leaf {i}: {value}", with_leaves({i: changed})
    for dtype in (torch.bool, torch.int64):
        found = {i: (x > 0).to(dtype) for i, x in enumerate(leaves)
                 if isinstance(x, torch.Tensor) and x.is_floating_point()}
        if found:
            yield f"floats as {dtype}", with_leaves(found)
    for dtype in (torch.int32, torch.uint8):
        found = {i: x.to(dtype) for i, x in enumerate(leaves)
                 if isinstance(x, torch.Tensor) and x.dtype is torch.int64}
        if found:
            yield f"indices as {dtype}", with_leaves(found)
    for d in (0, -1):
        found = {i: x.detach().narrow(d, 0, 0).clone()
                 for i, x in enumerate(leaves)
                 if isinstance(x, torch.Tensor) and x.dim() > 0}
        if found:
            yield f"dim {d} of size 0", with_leaves(found)


def enlarged(call: Call, elements: int) -> Call | None:
    """The call with so many elements and more, along the first dim or the last,
    or None where eager does not take it so."""
    leaves, spec = tree_flatten((call.args, call.kwargs))
    largest = max((x.numel() for x in tensors_of(leaves)), default=0)
    if largest == 0:
        return None
    times = -(-elements // largest)

    def repeated(x: Any, d: int) -> Any:
        if not isinstance(x, torch.Tensor) or x.dim() == 0:
            return x
        counts = [1] * x.dim()
        counts[d] = times
        return x.detach().repeat(counts)

    for d in (0, -1):
        larger = Call(call.target, *tree_unflatten(
            [repeated(x, d) for x in leaves], spec))
        try:
            larger.run()
        except Exception:
            continue
        return larger
    return None
