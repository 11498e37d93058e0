# SPDX-License-Identifier: Apache-2.0
"""Functional collectives in a graph: begun where their tensor is there, waited
for where a result is read, with independent nodes between.

The engine keeps intermediate results in memory of its own, and torch finds a
running collective by its result's storage. So a collective becomes two
operators: `start` begins it and gives a ticket, `wait` gives what came of it.

Invariants: collectives begin in the graph's order, which is the same in every
process; no node passes one that writes.
"""

from __future__ import annotations

import itertools
import threading
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule, Node

SPACE = "opgraft_distributed"
_THEIRS = "_c10d_functional"


@dataclass(frozen=True)
class Site:
    """A collective with its numbers: what a graph calls."""

    op: Any
    args: tuple[Any, ...]  # behind the tensors

    def __str__(self) -> str:
        return f"{self.op._schema.name.rpartition('::')[2]}{self.args}"


class _Running:
    """What runs, by ticket."""

    def __init__(self) -> None:
        self.sites: list[Site] = []
        self._known: dict[Site, int] = {}
        self._results: dict[int, tuple[int, list[torch.Tensor]]] = {}
        self._tickets = itertools.count()
        self._lock = threading.Lock()

    def site(self, site: Site) -> int:
        with self._lock:
            if site not in self._known:
                self._known[site] = len(self.sites)
                self.sites.append(site)
            return self._known[site]

    def add(self, results: list[torch.Tensor], waits: int) -> int:
        with self._lock:
            ticket = next(self._tickets)
            self._results[ticket] = waits, results
        return ticket

    def take(self, ticket: int, index: int) -> torch.Tensor:
        with self._lock:
            left, results = self._results[ticket]
            if left == 1:
                del self._results[ticket]
            else:
                self._results[ticket] = left - 1, results
        return results[index]


_running = _Running()
_library: list[torch.library.Library] = []


def _failed(site: Site, error: Exception) -> RuntimeError:
    return RuntimeError(f"{site} failed, a process may have died: {error}")


# These copy their tensor before they return; others read it while they run,
# and the plan gives its memory to other nodes.
_COPY = {f"{_THEIRS}::{name}" for name in (
    "all_reduce", "all_reduce_coalesced", "broadcast")}


def _start(tensors: list[torch.Tensor], site: int, waits: int) -> torch.Tensor:
    what = _running.sites[site]
    if what.op._schema.name not in _COPY:
        tensors = [t.clone() for t in tensors]
    takes_list = str(what.op._schema.arguments[0].type).startswith("List")
    try:
        made = what.op(tensors if takes_list else tensors[0], *what.args)
    except RuntimeError as error:
        raise _failed(what, error) from error
    results = list(made) if isinstance(made, (list, tuple)) else [made]
    return torch.tensor(_running.add(results, waits))


def _wait(ticket: torch.Tensor, site: int, index: int) -> torch.Tensor:
    result = _running.take(int(ticket), index)
    try:
        return torch.ops._c10d_functional.wait_tensor(result)
    except RuntimeError as error:
        raise _failed(_running.sites[site], error) from error


def _operators() -> Any:
    if not _library:
        library = torch.library.Library(SPACE, "DEF")
        library.define("start(Tensor[] tensors, int site, int waits) -> Tensor")
        library.define("wait(Tensor ticket, int site, int index) -> Tensor")
        library.impl("start", _start, "CPU")
        library.impl("wait", _wait, "CPU")
        _library.append(library)
    return getattr(torch.ops, SPACE)


# --- The graph ----------------------------------------------------------------


def split(gm: GraphModule) -> None:
    """Replaces the collectives of a graph, and lets independent nodes run while
    they do."""
    found = [n for n in gm.graph.nodes if _is_collective(n)]
    sites = {n: site for n in found if (site := _site(n)) is not None}
    for node, site in sites.items():
        _replace(gm, node, site)
    if sites:
        _defer(gm)


def _is_collective(node: Node) -> bool:
    target = node.target
    return (isinstance(target, torch._ops.OpOverload)
            and target.namespace == _THEIRS
            and not target._schema.is_mutable
            and target._schema.name != f"{_THEIRS}::wait_tensor"
            and bool(target._schema.returns))


def _site(node: Node) -> Site | None:
    """None where a number of it varies: the graph then runs as it came."""
    def fixed(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return tuple(fixed(v) for v in value)
        return value

    target: Any = node.target
    names = [a.name for a in target._schema.arguments]
    given = {**dict(zip(names, node.args)), **node.kwargs}
    rest = tuple(fixed(given[n]) for n in names[1:] if n in given)
    flat = list(itertools.chain.from_iterable(
        v if isinstance(v, tuple) else (v,) for v in rest))
    if any(isinstance(v, (Node, torch.SymInt)) for v in flat):
        return None
    return Site(target, rest)


def _replace(gm: GraphModule, node: Node, site: Site) -> None:
    ops, number = _operators(), _running.site(site)
    first = node.args[0]
    tensors = list(first) if isinstance(first, (list, tuple)) else [first]
    value = node.meta["val"]
    is_list = isinstance(value, (list, tuple))
    values = list(value) if is_list else [value]
    results = [u for u in node.users] if is_list else [node]
    places = [u.args[1] for u in results] if is_list else [0]
    with gm.graph.inserting_after(node):
        start = gm.graph.call_function(
            ops.start.default, (tensors, number, len(results)))
    start.meta = {**node.meta, "val": _ticket(values[0])}
    for result, place in zip(results, places):
        with gm.graph.inserting_after(result if is_list else start):
            wait = gm.graph.call_function(
                ops.wait.default, (start, number, place))
        wait.meta = {**node.meta, "val": values[place]}
        for user in list(result.users):
            if user.target is torch.ops._c10d_functional.wait_tensor.default:
                user.replace_all_uses_with(wait)
                gm.graph.erase_node(user)
        result.replace_all_uses_with(wait)
        gm.graph.erase_node(result)
    if is_list:
        gm.graph.erase_node(node)


def _ticket(like: Any) -> Any:
    """As a fake, of the mode that the graph's own are of."""
    with like.fake_mode:
        return torch.empty((), dtype=torch.int64)


def _is_ordered(node: Node) -> bool:
    """Nothing may pass it."""
    target = node.target
    if node.op != "call_function":
        return node.op == "output"
    if isinstance(target, torch._ops.OpOverload):
        return target._schema.is_mutable or not target._schema.returns
    return isinstance(target, torch._ops.HigherOrderOperator)


def _defer(gm: GraphModule) -> None:
    """Moves each wait, and what depends on it, behind the nodes that follow and
    do not, up to the next collective that needs it."""
    start = getattr(torch.ops, SPACE).start.default
    wait = getattr(torch.ops, SPACE).wait.default
    late: dict[Node, None] = {}
    order: list[Node] = []
    for node in list(gm.graph.nodes):
        needs = any(n in late for n in node.all_input_nodes)
        if _is_ordered(node) or (node.target is start and needs):
            order += late
            late.clear()
            order.append(node)
        elif needs or node.target is wait:
            late[node] = None
        else:
            order.append(node)
    order += late
    last = order[0]
    for node in order[1:]:
        last.append(node)
        last = node
    gm.graph.lint()
