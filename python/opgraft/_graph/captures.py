# SPDX-License-Identifier: Apache-2.0
"""Captures of a graph on CUDA: when one is made, and what it is told.

The first call with a set of sizes runs node by node and is the warm-up, the
second captures, and later ones replay what they have a capture of: C does that
(hosts/torch/graph/captured.c) and calls `Captures.slow` where none fits. So
each call does its work once, also where it writes inputs or draws random
numbers. CUDA itself is behind a Machine (cuda.py), which tests replace.

An input is pinned, that is read and written at the address it was captured
with, if it is a parameter, a buffer, written by the graph, or a result that
another capture lent. Others are copied to a buffer where they are elsewhere.

Results: the graph writes them to memory of the capture, and a call returns
views of that (it lends them) where no tensor shares it any more. While one
does, another capture of the same graph runs, whose results are copied to fresh
tensors. What a capture does not return is memory of one pool, which all
captures of a device share: no result stays there.
"""

from __future__ import annotations

import gc
import operator
import weakref
from collections import Counter, OrderedDict
from typing import Any, Callable, ContextManager, Iterable, Protocol

import torch
from torch.fx import GraphModule, Node

from .. import _C
from .._base.log import say
from . import storages

# As CAPTURE_* of hosts/torch/graph/capture.h.
VALUE, PART, INPUT = range(3)
MOVES_MAX = 3  # of a pinned input, before it is copied
MISSES_MAX = 8  # captures that no call fits

Key = tuple[Any, ...]


class Refused(Exception):
    """The graph runs node by node for these sizes; the text says why."""


class Machine(Protocol):
    """What captures ask of CUDA, for one device."""

    device: torch.device
    index: int  # which lock and which stream of C's
    lock: Any  # a threading.RLock
    stream_now: Callable[[int], int]
    is_taken: Callable[[], bool]  # somebody captures the current stream
    copy: Callable[[list[torch.Tensor], list[torch.Tensor]], Any]
    captured: Any  # a WeakSet of all _C.CapturedGraph

    def samples(self) -> tuple[torch.Tensor, torch.Tensor]: ...
    def wait(self, stream: int) -> None: ...
    def aside(self) -> ContextManager[None]: ...
    def hand_over(self, tensor: torch.Tensor) -> None: ...
    def capture(self, run: Callable[[list[Any]], Any], args: list[Any]
                ) -> tuple[Callable[[], None], Any]: ...


# --- Tensors ------------------------------------------------------------------


def span(tensor: torch.Tensor) -> torch.Tensor:
    """The memory from its first to its last element, as one row."""
    return tensor.as_strided((_extent(tensor),), (1,))


def _extent(tensor: torch.Tensor) -> int:
    if tensor.numel() == 0:
        return 0
    return 1 + sum((n - 1) * s
                   for n, s in zip(tensor.shape, tensor.stride()))


def _is_dense(tensor: torch.Tensor) -> bool:
    """No two elements share memory, and there is none between them."""
    return torch._debug_has_internal_overlap(tensor) == 0


def _is_plain(value: Any, device: torch.device) -> bool:
    return (type(value) in (torch.Tensor, torch.nn.Parameter)
            and value.device.type == device.type
            and value.layout is torch.strided
            and not value.is_neg() and not value.is_conj())


# --- The graph ----------------------------------------------------------------


def _written_by(node: Node) -> Iterable[Node]:
    schema = getattr(node.target, "_schema", None)
    if schema is None or not schema.is_mutable:
        return
    for i, a in enumerate(schema.arguments):
        if a.alias_info is not None and a.alias_info.is_write:
            value = node.args[i] if i < len(node.args) else node.kwargs.get(
                a.name)
            yield from (v for v in (value if isinstance(value, (list, tuple))
                                    else [value]) if isinstance(v, Node))


def _source(node: Any) -> Node | None:
    """The placeholder whose memory the node's result is, or a part of."""
    while isinstance(node, Node) and node.op != "placeholder":
        schema = getattr(node.target, "_schema", None)
        shares = node.target is operator.getitem or (
            schema is not None and any(
                r.alias_info is not None for r in schema.returns))
        node = node.args[0] if shares and node.args else None
    return node


class _Shape:
    """What the results of a graph are, for one set of sizes: `outs` as C takes
    them, `bases`: (geometry of the base, its first element, a result in it).
    """

    def __init__(self, outs: list[Any], args: list[Any],
                 sources: list[int | None]) -> None:
        self.outs: list[Any] = []
        self.bases: list[tuple[Any, ...]] = []
        owners: dict[int, int] = {}
        for i, a in enumerate(args):
            if isinstance(a, torch.Tensor):
                owners.setdefault(_C.captured_storage(a)[0], i)
        groups: dict[int, list[int]] = {}
        for o, out in enumerate(outs):
            if not isinstance(out, torch.Tensor):
                self.outs.append((VALUE, 0, out, None))
                continue
            storage = _C.captured_storage(out)[0]
            if storage in owners:
                self.outs.append(_alias(out, args, owners[storage],
                                        sources[o], storage))
            else:
                groups.setdefault(storage, []).append(o)
                self.outs.append(None)
        for members in groups.values():
            self._add_base(outs, members)

    def _add_base(self, outs: list[Any], members: list[int]) -> None:
        first = outs[members[0]]
        if any(outs[o].dtype is not first.dtype for o in members):
            raise Refused("results share memory and are of several types")
        begin = min(outs[o].storage_offset() for o in members)
        is_one = len(members) == 1 and _is_dense(first)
        if is_one:
            geometry = tuple(first.shape), first.stride()
        else:
            end = max(outs[o].storage_offset() + _extent(outs[o])
                      for o in members)
            geometry = (end - begin,), (1,)
        for o in members:
            place = (tuple(outs[o].shape), outs[o].stride(),
                     outs[o].storage_offset() - begin, is_one)
            self.outs[o] = (PART, len(self.bases), None, place)
        self.bases.append((geometry, begin, members[0], is_one, first.dtype))

    def parts(self, outs: list[Any]) -> list[torch.Tensor]:
        """The bases in what a run of the graph returned."""
        return [outs[o] if is_one
                else outs[o].as_strided(*geometry, begin)
                for geometry, begin, o, is_one, _ in self.bases]

    def agrees(self, other: _Shape) -> bool:
        """As long as nothing depends on data. Where a base begins in its
        storage may differ."""
        return (self.outs == other.outs
                and [(b[0], *b[2:]) for b in self.bases]
                == [(b[0], *b[2:]) for b in other.bases])


def _alias(out: torch.Tensor, args: list[Any], owner: int, source: int | None,
           storage: int) -> Any:
    if source is not None and isinstance(args[source], torch.Tensor) and (
            _C.captured_storage(args[source])[0] == storage):
        owner = source
    base = args[owner]
    if out.dtype is not base.dtype:
        raise Refused("a result views an input as another type")
    offset = out.storage_offset() - base.storage_offset()
    place = tuple(out.shape), out.stride(), offset
    is_whole = place == (tuple(base.shape), base.stride(), 0)
    return INPUT, owner, None, (*place, is_whole)


# --- The captures of a graph --------------------------------------------------


class _Capture:
    """What Python keeps of one: C has the rest, by `number`."""

    def __init__(self, number: int, key: Key, lends: bool,
                 pinned: dict[int, int], lent: list[int]) -> None:
        self.number, self.key, self.lends = number, key, lends
        self.pinned = pinned  # input -> address
        self.lent = lent  # storages of its bases


class Captures:
    """Of one graph. Threads: calls of `slow` take the machine's lock, which
    C's lock of the device may be taken under, not the other way round."""

    def __init__(self, gm: GraphModule, machine: Machine, static: Iterable[int],
                 limit: int, name: str) -> None:
        nodes = list(gm.graph.nodes)
        self.name, self.machine, self.limit = name, machine, limit
        self.forward = gm.forward
        inputs = {n: i for i, n in enumerate(
            n for n in nodes if n.op == "placeholder")}
        results = nodes[-1].args[0]
        self.is_list = isinstance(results, (list, tuple))
        self.sources = [inputs.get(_source(r))
                        for r in (results if self.is_list else [results])]
        self.written = {inputs[s] for n in nodes for w in _written_by(n)
                        if (s := _source(w)) is not None}
        self.pins = set(static) | self.written
        self.copied: set[int] = set()  # pinned ones that moved too often
        self.moves: Counter[int] = Counter()
        self.kept: list[_Capture] = []
        self.lent: set[int] = set()  # of all captures, also of dropped ones
        weakref.finalize(self, _lent.difference_update, self.lent)
        self.shapes: OrderedDict[Key, _Shape] = OrderedDict()
        self.refused: dict[Key, str] = {}
        self.misses = 0
        self.counts: Counter[str] = Counter()
        self.causes: Counter[str] = Counter()

    # --- A call that no capture fits ---

    def slow(self, captured: Any, given: Iterable[Any]) -> list[Any]:
        args = list(given)
        with torch.no_grad():
            return self._slow(captured, args)

    def _slow(self, captured: Any, args: list[Any]) -> list[Any]:
        if self.machine.is_taken():
            return self._eager(args, "another capture is under way")
        key = self._key(args)
        if key is None:
            return self._eager(args, "an input is not a plain tensor on "
                                     f"{self.machine.device}")
        if key in self.refused:
            return self._eager(args, self.refused[key])
        with self.machine.lock:
            results = captured.replay(args)  # another thread captured it
            if results is not None:
                return results
            if key not in self.shapes:
                return self._warm_up(key, args)
            try:
                self._capture(captured, key, args)
            except Exception as error:  # whatever an operator raises
                return self._refuse(key, args, error)
        results = captured.replay(args)
        if results is not None:
            return results
        self.misses += 1  # a thread was faster, or it never fits
        if self.misses >= MISSES_MAX:
            self.refused[key] = "captures do not fit the calls that made them"
        return self._eager(args, "its capture is in use")

    def _eager(self, args: list[Any], reason: str) -> list[Any]:
        self.counts["eager_calls"] += 1
        self.causes[f"eager: {reason}"] += 1
        return self._run(args)

    def _run(self, args: list[Any]) -> list[Any]:
        results = self.forward(*args)
        return list(results) if self.is_list else [results]

    def _refuse(self, key: Key, args: list[Any], error: Exception) -> list[Any]:
        text = f"{type(error).__name__}: {error}".splitlines()[0]
        self.refused[key] = text
        say(f"{self.name} is not captured: {text}")
        return self._eager(args, text)

    def _key(self, args: list[Any]) -> Key | None:
        found: list[Any] = []
        for a in args:
            if isinstance(a, torch.Tensor):
                if not _is_plain(a, self.machine.device):
                    return None
                found.append((a.shape, a.stride(), a.dtype))
            elif a is None or type(a) is int:
                found.append(a)
            else:
                return None
        return tuple(found)

    # --- Warm-up ---

    def _warm_up(self, key: Key, args: list[Any]) -> list[Any]:
        with self.machine.aside():
            results = self._run(args)
        for r in results:
            if isinstance(r, torch.Tensor):
                self.machine.hand_over(r)
        self.counts["warm_ups"] += 1
        try:
            self.shapes[key] = _Shape(results, args, self.sources)
        except (Refused, TypeError) as error:
            self.refused[key] = str(error)
            say(f"{self.name} is not captured: {error}")
        while len(self.shapes) > 4 * self.limit:
            self.shapes.popitem(last=False)
        return results

    # --- Capturing ---

    def _capture(self, captured: Any, key: Key, args: list[Any]) -> None:
        self._forget(set(captured.order()))  # a repair may have dropped some
        kept = [c for c in self.kept if c.key == key]
        fitting = [c for c in kept if self._is_at(c, args)]
        lends = storages.are_read() and not any(c.lends for c in fitting)
        cause = self._cause(kept, fitting, args)
        given, run_args = self._inputs(args)
        shape = self.shapes[key]
        self.shapes.move_to_end(key)
        bases = self._bases(shape) if lends else []

        def run(args: list[Any]) -> Any:
            results = self._run(args)
            found = _Shape(results, args, self.sources)
            if not shape.agrees(found):
                raise Refused("results differ in shape, or in what they "
                              "share, from one call to the next")
            parts = found.parts(results)
            if lends and parts:
                self.machine.copy(bases, parts)
            return parts

        was_enabled = gc.isenabled()
        gc.disable()  # what it frees might end the capture
        try:
            replay, parts = self.machine.capture(run, run_args)
        finally:
            if was_enabled:
                gc.enable()
        pinned = {i: args[i].data_ptr() for i, g in enumerate(given)
                  if isinstance(g, tuple) and g[1] is None}
        bases = bases or parts
        number = captured.add(given, shape.outs, bases, replay, lends)
        lent = ([_C.captured_storage(b)[0] for b in bases] if lends else [])
        _lent.update(lent)
        self.lent.update(lent)
        self.kept.append(_Capture(number, key, lends, pinned, lent))
        self.counts["captures"] += 1
        self.causes[cause] += 1
        self._evict(captured)

    def _is_at(self, c: _Capture, args: list[Any]) -> bool:
        return all(args[i].data_ptr() == address
                   for i, address in c.pinned.items())

    def _cause(self, kept: list[_Capture], fitting: list[_Capture],
               args: list[Any]) -> str:
        if fitting:
            return "a result of the last call is alive"
        if not kept:
            return "sizes" if self.kept else "first"
        last = kept[-1].pinned
        moved = [i for i in last if args[i].data_ptr() != last[i]]
        for i in moved:
            self.moves[i] += 1
            if i not in self.pins or self.moves[i] > MOVES_MAX:
                self.copied.add(i)
        if any(i in self.written for i in moved):
            return "a written input moved"
        if any(i in self.pins for i in moved):
            return "a parameter or buffer moved"
        return "an input that was lent moved"

    def _is_pinned(self, i: int, value: torch.Tensor) -> bool:
        if i in self.copied:
            return False
        return (i in self.pins or isinstance(value, torch.nn.Parameter)
                or _C.captured_storage(value)[0] in _lent)

    def _inputs(self, args: list[Any]) -> tuple[list[Any], list[Any]]:
        """What C is told of each argument, and what the graph is run with."""
        given: list[Any] = []
        run: list[Any] = []
        with self.machine.aside():
            for i, a in enumerate(args):
                if not isinstance(a, torch.Tensor):
                    given.append(a)
                    run.append(a)
                elif self._is_pinned(i, a):
                    given.append((a, None, False))
                    run.append(a)
                else:
                    like, buffer = self._buffer(a)
                    given.append((like, buffer, i in self.written))
                    run.append(like)
        return given, run

    def _buffer(self, a: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        if _is_dense(a):
            made = torch.empty_strided(a.shape, a.stride(), dtype=a.dtype,
                                       device=a.device)
            return made.copy_(a), made
        made = torch.empty(_extent(a), dtype=a.dtype, device=a.device)
        made.copy_(span(a))
        return made.as_strided(a.shape, a.stride()), made

    def _bases(self, shape: _Shape) -> list[torch.Tensor]:
        with self.machine.aside():
            return [torch.empty_strided(*geometry, dtype=dtype,
                                        device=self.machine.device)
                    for geometry, _, _, _, dtype in shape.bases]

    def _evict(self, captured: Any) -> None:
        order = captured.order()
        for number in order[self.limit:]:
            captured.drop(number)
            self.counts["evictions"] += 1
        self._forget(set(order[:self.limit]))

    def _forget(self, known: set[int]) -> None:
        for c in self.kept:
            if c.number not in known:
                _lent.difference_update(c.lent)
        self.kept = [c for c in self.kept if c.number in known]


# Storages that captures lend, of all devices. An address that is old only makes
# an input pinned that might be copied.
_lent: set[int] = set()


# --- What a graph's stats say -------------------------------------------------


class Compiled:
    """A captured graph as stats.py reads it."""

    in_python: tuple[str, ...] = ()

    def __init__(self, captured: Any, captures: Captures, nodes: int) -> None:
        self._captured, self._captures, self._nodes = captured, captures, nodes

    def stats(self) -> str:
        import json

        captures, counts = self._captures, self._captured.counts()
        refused = sorted(set(captures.refused.values()))
        made = captures.counts["captures"]
        return json.dumps({
            "nodes": self._nodes, "host_nodes": self._nodes, "native": 0,
            "fallbacks": [{"operator": "the whole graph", "reason": r,
                           "file": "", "line": 0} for r in refused],
            "device": str(captures.machine.device),
            "captures": made,
            "recaptures": made - captures.causes["first"]
            - captures.causes["sizes"],
            "causes": dict(captures.causes),
            "warm_ups": captures.counts["warm_ups"],
            "eager_calls": captures.counts["eager_calls"],
            "evictions": captures.counts["evictions"],
            **counts,
        })

    def rules(self) -> str:
        return ""


def new(gm: GraphModule, machine: Machine, static: Iterable[int], limit: int,
        name: str) -> tuple[Any, Callable[[Any], Compiled]]:
    """(what AOTAutograd calls, what makes of it what stats.py reads). Raises
    NotImplementedError where C does not know tensors of this torch."""
    from torch.utils._python_dispatch import _disable_current_modes

    captures = Captures(gm, machine, static, limit, name)
    with _disable_current_modes():  # AOTAutograd's would make fake tensors
        samples = machine.samples()
    count = sum(n.op == "placeholder" for n in gm.graph.nodes)
    captured = _C.captured_new(
        count, machine.index, samples, captures.slow,
        machine.stream_now, machine.is_taken, machine.wait, machine.copy, span)
    machine.captured.add(captured)
    nodes = sum(n.op == "call_function" for n in gm.graph.nodes)
    return captured, lambda made: Compiled(made, captures, nodes)
