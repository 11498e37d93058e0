# SPDX-License-Identifier: Apache-2.0
"""How a call is made of calls on parts of its arguments, from the shape rule
and `.reduce` (docs/shape-rules.md). Every host's sharding rule comes from here.
Imports no host.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Iterator, Union

from . import sizes
from .absorb import Absorb
from .tables import Description

Part = Union[int, str, None]
"""What each of several machines has of a tensor: a part along this axis, a
value that joins with the others' ("sum", "prod", "max", "min"), or None: all of
it."""


@dataclass(frozen=True)
class Cut:
    """Dims that may be cut into equally many parts, and how outputs without
    them come from those of the parts."""

    dims: tuple[int, ...]
    block: int = 1
    join: str | None = None
    once: frozenset[int] = frozenset()  # tensors that a sum counts once
    unless: tuple[int, str] | None = None  # attr, its value
    is_derived: bool = False  # by a leading pack, not by `.reduce`


@dataclass(frozen=True)
class Split:
    """One way to cut a call. Lists and what is absent are not among `args`."""

    text: str  # "O", "*N[0]"
    args: dict[int, Part]  # by tensor
    fresh: list[Part]
    mutated: dict[int, Part]  # the new value, by tensor


def cuts(d: Description) -> list[Cut]:
    """What `.reduce` says, and the leading pack, whose elements do not meet."""
    found = [
        Cut(tuple(c["dims"]), c["block"], c["join"], frozenset(c["once"]),
            (c["unless"]["attr"], c["unless"]["value"]) if c["unless"] else None)
        for c in d.tables["cuts"]
    ]
    named = {dim for cut in found for dim in cut.dims}
    absorb = Absorb(d)
    packs = absorb.packs
    is_one = len(packs) == 1 or absorb.has_broadcast
    if packs and is_one and not packs & named:
        found.insert(0, Cut(tuple(sorted(packs)), is_derived=True))
    return found


def refusal(d: Description) -> str | None:
    """Why machines cannot share calls of an operator, not even alike ones."""
    flags = d.tables["flags"]
    if not any(p["tensor"] is not None for p in d.params):
        return "it has no tensor argument"
    if "random" in flags:
        return "it is random: machines would draw different numbers"
    if "side_effect" in flags:
        return "it has a side effect, which each machine would have"
    if d.numbers:
        return "a result is a number"
    if d.is_data_dependent:
        return "a result's size depends on values"
    if any(r["list"] for r in d.results):
        return "a result is a list"
    return None


def text(d: Description, cut: Cut) -> str:
    """A cut as `.reduce` writes it; a pack has its star."""
    dims = d.tables["dims"]
    out = " + ".join(("*" if dims[i]["kind"] == "pack" else "") + dims[i]["name"]
                     for i in cut.dims)
    if cut.block > 1:
        out += f" / {cut.block}"
    if cut.join is not None:
        out += f": {cut.join}"
    if cut.once:
        names = [p["name"] for p in d.params if p["tensor"] in cut.once]
        out += f"({', '.join(names)})"
    if cut.unless is not None:
        name = next(p["name"] for p in d.params if p["attr"] == cut.unless[0])
        out += f" unless {name} == {cut.unless[1]!r}"
    return out


class Scope(sizes.Scope):
    """The sizes of a call that was already found right."""

    def broadcast(self, packs: list[Any]) -> tuple[Any, ...]:
        rank = max(len(p) for p in packs)
        wide = [(1,) * (rank - len(p)) + tuple(p) for p in packs]
        return tuple(next((s for s in row if s != 1), 1) for row in zip(*wide))

    def new_size(self, bound: Any) -> Any:
        return bound

    def item_bytes(self, value: Any) -> int:
        return 1


class Splitter:
    """The splits of one call. `values` has an entry for each parameter; what is
    a tensor has a `shape`."""

    def __init__(self, d: Description, values: list[Any], parts: int) -> None:
        self.d = d
        self.parts = parts
        tensors = [v for v, p in zip(values, d.params)
                   if p["tensor"] is not None]
        self.attrs = [v for v, p in zip(values, d.params)
                      if p["attr"] is not None]
        self.given = {p["tensor"]: v for v, p in zip(values, d.params)
                      if p["tensor"] is not None and v is not None
                      and not p["list"]}
        self.patterns = {p["tensor"]: p for p in d.tables["patterns"]}
        self.scope = Scope(d, tensors, self.attrs)
        self.scope.match()

    def all(self) -> Iterator[Split]:
        for cut in cuts(self.d):
            if cut.unless and self.attrs[cut.unless[0]] == cut.unless[1]:
                continue
            for places in self._places(cut):
                split = self._split(cut, places)
                if split is not None:
                    yield split

    # --- Which dims are cut ---

    def _is_pack(self, dim: int) -> bool:
        return bool(self.d.tables["dims"][dim]["kind"] == "pack")

    def _places(self, cut: Cut) -> Iterator[dict[int, int]]:
        """For each dim that is cut its place in it: 0, or a pack's entry."""
        if cut.is_derived:
            yield from self._broadcast_places(cut)
            return
        first = cut.dims[0]
        if len(cut.dims) == 1 and self._is_pack(first):
            for k in range(len(self.scope.dims.get(first, ()))):
                yield {first: k}
            return
        known = {d: self.scope.dims.get(d) for d in cut.dims}
        if any(v is None or isinstance(v, tuple) for v in known.values()):
            return
        # Of several dims, one of size 1 stays whole.
        large = [d for d, size in known.items() if size != 1]
        if len(cut.dims) == 1 or large:
            yield {d: 0 for d in (large if len(cut.dims) > 1 else cut.dims)}

    def _broadcast_places(self, cut: Cut) -> Iterator[dict[int, int]]:
        """Packs align at the right; one that has no such dim, or one of size 1
        there, stays whole."""
        packs = {d: self.scope.dims.get(d) for d in cut.dims}
        known = {d: p for d, p in packs.items() if p is not None}
        if not known:
            return
        full = self.scope.broadcast(list(known.values()))
        for k, size in enumerate(full):
            places = {}
            for d, pack in known.items():
                at = k - (len(full) - len(pack))
                if at >= 0 and pack[at] == size:
                    places[d] = at
            if places:
                yield places

    def _size(self, dim: int, place: int) -> Any:
        value = self.scope.dims[dim]
        return value[place] if isinstance(value, tuple) else value

    def _is_even(self, cut: Cut, places: dict[int, int]) -> bool:
        """Whether parts have one size, of whole blocks."""
        unit = cut.block * self.parts
        return all(self._size(d, k) % unit == 0 for d, k in places.items())

    def _names(self, places: dict[int, int]) -> bool:
        """Whether a condition asks for a dim that is cut."""
        return any(
            op == "dim" and slot and slot[0] in places
            for condition in self.d.tables["conditions"]
            for op, *slot in condition["expr"])

    def _holds(self, places: dict[int, int]) -> bool:
        """Whether the conditions hold for a part too."""
        part = Scope(self.d, self.scope.tensors, self.attrs)
        part.dims = dict(self.scope.dims)
        for d, k in places.items():
            value = part.dims[d]
            small = self._size(d, k) // self.parts
            part.dims[d] = ((*value[:k], small, *value[k + 1:])
                            if isinstance(value, tuple) else small)
        return all(part.as_bool(part.value(c["expr"]))
                   for c in self.d.tables["conditions"])

    # --- Where they are ---

    def _axis(
        self, items: list[dict[str, Any]], places: dict[int, int]
    ) -> int | None:
        """The axis of a tensor of these items that is cut."""
        at = 0
        for item in items:
            kind, dim = item["kind"], item.get("dim")
            if kind in ("dim", "pack") and dim in places:
                return at + places[dim]
            if kind == "broadcast":
                rank = len(self.scope._pack(item))
                for p in item["packs"]:
                    if p in places:
                        own = len(self.scope.dims[p])
                        return at + rank - own + places[p]
            if kind == "expr" and any(op == "dim" and slot[0] in places
                                      for op, *slot in item["expr"] if slot):
                return at
            at += self._rank(item)
        return None

    def _rank(self, item: dict[str, Any]) -> int:
        if item["kind"] in ("dim", "vary", "expr", "found"):
            return 1
        if item["kind"] == "pack":
            return len(self.scope.dims.get(item["dim"], ()))
        return len(self.scope._pack(item))

    def _tensor_axis(self, tensor: int, places: dict[int, int]) -> int | None:
        pattern = self.patterns.get(tensor)
        return None if pattern is None else self._axis(pattern["items"], places)

    def _fresh_axis(
        self, rule: dict[str, Any], places: dict[int, int]
    ) -> int | None:
        if rule["kind"] == "like":
            return self._tensor_axis(rule["tensor"], places)
        return self._axis(rule["items"], places)

    # --- The split ---

    def _split(self, cut: Cut, places: dict[int, int]) -> Split | None:
        d = self.d
        must_be_even = len(places) > 1 or cut.block > 1 or self._names(places)
        if must_be_even and not (self._is_even(cut, places)
                                 and self._holds(places)):
            return None
        args: dict[int, Part] = {}
        for t in self.given:
            axis = self._tensor_axis(t, places)
            args[t] = "sum" if axis is None and t in cut.once else axis

        def joined(axis: int | None) -> Part:
            if axis is not None or cut.join in (None, "same"):
                return axis
            return cut.join

        axes = [self._fresh_axis(rule, places) for rule in d.tables["shapes"]]
        written = {t: self._tensor_axis(t, places) for t in self.given
                   if self._is_written(t)}
        if cut.join is None and None in [*axes, *written.values()]:
            return None  # a dim that stays whole is the only one it has
        names = [f"*{d.tables['dims'][i]['name']}[{k}]" if self._is_pack(i)
                 else d.tables["dims"][i]["name"] for i, k in places.items()]
        return Split(" + ".join(names), args, [joined(a) for a in axes],
                     {t: joined(a) for t, a in written.items()})

    def _is_written(self, tensor: int) -> bool:
        return any(self.d.params[p]["tensor"] == tensor for p in self.d.mutated)
