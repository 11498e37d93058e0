# SPDX-License-Identifier: Apache-2.0
"""How XLA shares a call between devices, from the shape rule and `.reduce`:
named dims stay sharded, nothing is gathered that the rule does not ask for."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any, Callable, Iterable, Iterator

import jax
from jax.experimental.custom_partitioning import custom_partitioning
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from .._base import sharding
from .._base.sharding import Part, Split, Splitter
from .._base.tables import Description

_JOINS = {"sum": jax.lax.psum, "max": jax.lax.pmax, "min": jax.lax.pmin}

Axes = tuple[str, ...]  # of a mesh


@dataclass
class _Array:
    """What a Splitter asks of an argument."""

    shape: tuple[int, ...]


@dataclass(frozen=True)
class _Plan:
    """What each device has: mesh axes by dim, of arguments and results, which
    arguments a sum counts once, and how results are joined."""

    args: list[list[Axes]]
    results: list[list[Axes]]
    once: list[Axes]
    joins: list[list[tuple[str, Axes]]]


class Shares:
    """One call's. `values` has an entry for each parameter, what is a tensor an
    array; `tensors` has the tensor of each buffer that XLA is given. It gives
    fresh results, then the new values of the tensors in `written`, of these
    shapes."""

    def __init__(self, d: Description, values: list[Any], tensors: list[int],
                 written: list[int], shapes: list[tuple[int, ...]]) -> None:
        self.d = d
        self.values = [_Array(tuple(v.shape)) if p["tensor"] is not None
                       and v is not None else v
                       for p, v in zip(d.params, values)]
        self.params = {p["tensor"]: i for i, p in enumerate(d.params)
                       if p["tensor"] is not None}
        self.tensors, self.written, self.shapes = tensors, written, shapes
        self.splits = list(self._usable(self.values, 1))

    # --- Which dims may be shared ---

    def _parts(self, split: Split) -> list[Part]:
        """Of each result."""
        return split.fresh + [split.mutated[t] for t in self.written]

    def _usable(self, values: list[Any], parts: int) -> Iterator[Split]:
        """Splits along dims that no other has, of one size or, as heads and
        groups of heads, of one and a multiple of it."""
        taken: set[tuple[int, int]] = set()
        for split in Splitter(self.d, values, parts).all():
            at = {(t, axis) for t in self.tensors
                  if isinstance(axis := split.args[t], int)}
            sizes = {values[self.params[t]].shape[a] for t, a in at}
            joins = {p for p in self._parts(split) if isinstance(p, str)}
            if (at and not at & taken and 0 not in sizes and len(sizes) <= 2
                    and max(sizes) % min(sizes) == 0 and joins <= set(_JOINS)
                    and not any(isinstance(split.mutated[t], str)
                                for t in self.written)):
                taken |= at
                yield split

    def _least(self, split: Split) -> int:
        """The size of its smallest dim."""
        return min(self.values[self.params[t]].shape[axis] for t in self.tensors
                   if isinstance(axis := split.args[t], int))

    def rule(self) -> tuple[str, dict[str, Any]]:
        """For Shardy: a factor for each split, and one that is not sharded for
        each other dim, and for what a multiple has beside the split's."""
        whole: list[str] = []
        sizes: dict[str, int] = {}

        def own() -> str:
            whole.append(f"w{len(whole)}")
            return whole[-1]

        def named(shape: tuple[int, ...], parts: list[Part]) -> str:
            words = []
            for axis, size in enumerate(shape):
                i = next((i for i, p in enumerate(parts) if p == axis), None)
                least = size if i is None else self._least(self.splits[i])
                if i is None:
                    words.append(own())
                elif size == least:
                    words.append(f"f{i}")
                else:
                    words.append(f"(f{i} {own()})")
                    sizes[whole[-1]] = size // least
            return " ".join(words)

        args = [named(self.values[self.params[t]].shape,
                      [s.args[t] for s in self.splits]) for t in self.tensors]
        of_results = [self._parts(s) for s in self.splits]
        results = [named(shape, [p[r] for p in of_results])
                   for r, shape in enumerate(self.shapes)]
        reduced = tuple(
            f"f{i}" for i, parts in enumerate(of_results)
            if not any(isinstance(p, int) for p in parts))
        return f"{', '.join(args)} -> {', '.join(results)}", {
            "reduction_factors": reduced,
            "need_replication_factors": tuple(whole), **sizes}

    # --- What each device has ---

    def plan(self, mesh: Any, given: list[list[Axes]]) -> _Plan:
        """`given` has the mesh axes by which each argument's dims come."""
        plan = _Plan([[()] * len(g) for g in given],
                     [[()] * len(shape) for shape in self.shapes],
                     [()] * len(given), [[] for _ in self.shapes])
        used: set[str] = set()
        local = list(self.values)
        for split in self.splits:
            axes = self._asked(split, given)
            parts = math.prod(mesh.shape[a] for a in axes)
            if not axes or used & set(axes) or not self._divides(
                    split, local, parts):
                continue
            used |= set(axes)
            local = self._cut(split, local, parts)
            for k, t in enumerate(self.tensors):
                part = split.args[t]
                if isinstance(part, int):
                    plan.args[k][part] = axes
                elif part == "sum":
                    plan.once[k] += axes
            for r, part in enumerate(self._parts(split)):
                if isinstance(part, int):
                    plan.results[r][part] = axes
                elif part is not None:
                    plan.joins[r].append((part, axes))
        return plan

    def _asked(self, split: Split, given: list[list[Axes]]) -> Axes:
        """The mesh axes of the largest argument that comes sharded so."""
        found: tuple[int, Axes] = (0, ())
        for k, t in enumerate(self.tensors):
            part = split.args[t]
            if isinstance(part, int) and given[k][part]:
                size = math.prod(self.values[self.params[t]].shape)
                found = max(found, (size + 1, given[k][part]))
        return found[1]

    def _divides(self, split: Split, local: list[Any], parts: int) -> bool:
        """Whether the parts have one size and the conditions hold for one."""
        return all(
            local[self.params[t]].shape[split.args[t]] % parts == 0
            for t in self.tensors if isinstance(split.args[t], int)
        ) and any(s.text == split.text for s in self._usable(local, parts))

    def _cut(self, split: Split, local: list[Any], parts: int) -> list[Any]:
        out = list(local)
        for t in self.tensors:
            axis = split.args[t]
            if isinstance(axis, int):
                shape = list(local[self.params[t]].shape)
                shape[axis] //= parts
                out[self.params[t]] = _Array(tuple(shape))
        return out


def _axes(sharding: Any, rank: int) -> list[Axes]:
    """By dim; none where the mesh is not known."""
    spec = tuple(getattr(sharding, "spec", None) or ())
    found = [() if entry is None or entry is PartitionSpec.UNCONSTRAINED
             else entry if isinstance(entry, tuple) else (entry,)
             for entry in spec]
    return found + [()] * (rank - len(found))


def _spec(dims: list[Axes]) -> PartitionSpec:
    return PartitionSpec(*(a or None for a in dims))


def _explicit(buffers: tuple[Any, ...]) -> Any:
    """The mesh whose axes are part of the buffers' types, or None."""
    for buffer in buffers:
        mesh = getattr(getattr(jax.typeof(buffer), "sharding", None), "mesh",
                       None)
        if mesh is not None and AxisType.Explicit in mesh.axis_types:
            return mesh
    return None


class Shared:
    """A call of buffers, each device on what it has of them. The partitioner
    says what that is, or the buffers' types, where a mesh has explicit axes."""

    def __init__(self, shares: Shares, call: Callable[..., list[Any]]) -> None:
        self.shares, self.call = shares, call
        self._partitioned = custom_partitioning(call)
        rule, kinds = shares.rule()
        self._partitioned.def_partition(
            self._partition, infer_sharding_from_operands=self._infer,
            sharding_rule=rule, **kinds)

    def __call__(self, *buffers: Any) -> list[Any]:
        mesh = _explicit(buffers)
        if mesh is None:
            return list(self._partitioned(*buffers))
        plan = self._plan(mesh, map(jax.typeof, buffers))
        given = [jax.sharding.reshard(b, NamedSharding(mesh, _spec(dims)))
                 for b, dims in zip(buffers, plan.args)]
        names = {name for name, kind in zip(mesh.axis_names, mesh.axis_types)
                 if kind == AxisType.Explicit}
        return list(jax.shard_map(
            functools.partial(self._local, plan), mesh=mesh,
            in_specs=tuple(map(_spec, plan.args)),
            out_specs=list(map(_spec, plan.results)),
            axis_names=names, check_vma=False)(*given))

    def _plan(self, mesh: Any, args: Iterable[Any]) -> _Plan:
        return self.shares.plan(mesh, [_axes(a.sharding, len(a.shape))
                                       for a in args])

    def _local(self, plan: _Plan, *buffers: Any) -> list[Any]:
        out = self.call(*(_once(b, axes) for b, axes in
                          zip(buffers, plan.once)))
        for r, joins in enumerate(plan.joins):
            for how, axes in joins:
                out[r] = _JOINS[how](out[r], axes)
        return out

    def _partition(self, mesh: Any, args: Any, results: Any) -> Any:
        plan = self._plan(mesh, args)
        return (mesh, functools.partial(self._local, plan),
                [NamedSharding(mesh, _spec(dims)) for dims in plan.results],
                tuple(NamedSharding(mesh, _spec(dims)) for dims in plan.args))

    def _infer(self, mesh: Any, args: Any, results: Any) -> Any:
        return [NamedSharding(mesh, _spec(dims))
                for dims in self._plan(mesh, args).results]


def _once(buffer: Any, axes: Axes) -> Any:
    """Zero but on the first device along these axes."""
    for axis in axes:
        buffer = jax.numpy.where(jax.lax.axis_index(axis) == 0, buffer,
                                 jax.numpy.zeros_like(buffer))
    return buffer


def refusal(d: Description) -> str | None:
    """Why devices do not share calls of an operator: each has all of it."""
    if any(p["list"] for p in d.params if p["tensor"] is not None):
        return "an argument is a list"
    return sharding.refusal(d)
