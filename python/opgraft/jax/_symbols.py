# SPDX-License-Identifier: Apache-2.0
"""Result shapes where sizes are jax.export's symbols: the shape rule in
Python, since the C library computes with numbers."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from .._base import sizes
from .._base.tables import Description


class Scope(sizes.Scope):
    """JAX decides a comparison of symbols, or raises and says what to assume."""

    def least(self, a: Any, b: Any) -> Any:
        return jax.core.min_dim(a, b)

    def most(self, a: Any, b: Any) -> Any:
        return jax.core.max_dim(a, b)

    def broadcast(self, packs: list[Any]) -> tuple[Any, ...]:
        return tuple(jnp.broadcast_shapes(*packs))

    def item_bytes(self, value: Any) -> int:
        given = jax.tree.leaves(value)
        return int(given[0].dtype.itemsize) if given else 0


def are_symbols(tensors: tuple[Any, ...]) -> bool:
    return any(not isinstance(size, int)
               for leaf in jax.tree.leaves(tensors) for size in leaf.shape)


def shapes(d: Description, tensors: tuple[Any, ...],
           attrs: list[Any]) -> list[tuple[str, Any]]:
    """Type's name and sizes of each fresh result."""
    if d.has_callback:
        raise ValueError(f"{d.name}: its sizes come from C, which computes "
                         "with numbers; export it with static sizes")
    scope = Scope(d, list(tensors), attrs)
    scope.match()
    out: list[tuple[str, Any]] = []
    for rule, kind in zip(d.tables["shapes"], d.tables["out_types"]):
        if rule["kind"] == "list":
            raise ValueError(f"{d.name}: a result is a list; export it with "
                             "static sizes")
        sized = (tensors[rule["tensor"]].shape if rule["kind"] == "like"
                 else tuple(scope.sizes(rule["items"])))
        out.append((_dtype(d, kind, tensors, attrs), sized))
    return out


def _dtype(d: Description, kind: dict[str, Any], tensors: tuple[Any, ...],
           attrs: list[Any]) -> str:
    """As numpy names it, or as the declaration does."""
    if kind["kind"] == "fixed":
        return str(kind["dtype"])
    if kind["kind"] == "promote":
        raise ValueError(f"{d.name}: its result's type is promoted; export it "
                         "with static sizes")
    if kind["kind"] == "attr" and attrs[kind["attr"]] is not None:
        return str(attrs[kind["attr"]])
    return str(jax.tree.leaves(tensors[kind["tensor"]])[0].dtype)
