# SPDX-License-Identifier: Apache-2.0
"""Graphs with sizes that depend on data: one plan up to where a size becomes
known, another from there.

The graph is cut at nodes whose result has such a size (nonzero, item, an
operator with a data-dependent output) and at those that take a number read from
data. Such a node is called as it is; what lies between two of them is a graph
of the engine's, whose plans are kept by size like any other's. Arithmetic on
sizes, and checks of them, run on Python numbers in between.

A view of an input does not cross a cut: each segment that reads it makes it
from the input. A segment that writes the input then knows what the view shows,
and no segment gets two tensors of one storage.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass, field
from typing import Any, Callable, Container, Iterable

import torch
import torch.utils._pytree as pytree
from torch.fx import GraphModule, Node

_NUMBERS = (torch.SymInt, torch.SymFloat, torch.SymBool, int, float, bool)

Env = dict[Any, Any]  # by node; sizes by symbol


def _is_number(node: Node) -> bool:
    return isinstance(node.meta.get("val"), _NUMBERS)


def has_numbers(gm: GraphModule) -> bool:
    """Whether nodes compute floats or truth values of sizes, which segments
    leave to Python. No segment does."""
    return any(isinstance(n.meta.get("val"), (torch.SymFloat, torch.SymBool))
               for n in gm.graph.nodes)


def _takes_data(node: Node) -> bool:
    """An argument is a number that was read from data and is not a size."""
    return any(isinstance(n.meta.get("val"), (torch.SymFloat, torch.SymBool))
               for n in node.all_input_nodes)


def _runs_alone(node: Node) -> bool:
    """Whether Python calls it between segments."""
    if _bindings(node) or _is_number(node):
        return True
    if "val" not in node.meta or node.meta["val"] is None:
        return not any(isinstance(n.meta.get("val"), torch.Tensor)
                       for n in node.all_input_nodes)  # a check of sizes
    if node.target is operator.getitem:
        source = node.args[0]
        return isinstance(source, Node) and bool(_bindings(source))
    return _takes_data(node)


def runs_alone(gm: GraphModule) -> bool:
    """Whether the graph is cut at a size that depends on data, or has numbers
    that Python computes."""
    return any(n.op == "call_function" and (
        bool(n.meta.get("unbacked_bindings")) or _takes_data(n))
        for n in gm.graph.nodes)


# --- Views --------------------------------------------------------------------


def is_view(node: Node) -> bool:
    """By what its operator declares."""
    if node.target is operator.getitem:
        return isinstance(node.args[0], Node) and is_view(node.args[0])
    schema = getattr(node.target, "_schema", None)
    return schema is not None and any(
        r.alias_info is not None and not r.alias_info.is_write
        for r in schema.returns)


def bases(node: Node) -> Iterable[Node]:
    """What autograd takes the node's result for a view of, from the nearest:
    where a tensor is detached that begins anew."""
    while is_view(node) and node.target is not torch.ops.aten.detach.default:
        node = node.all_input_nodes[0]
        if node.target is torch.ops.aten.detach.default or not is_view(node):
            yield node


def _is_view(node: Node) -> bool:
    return is_view(node) and not _runs_alone(node)


def _is_view_of_input(node: Node) -> bool:
    if not _is_view(node):
        return False
    while _is_view(node):
        node = node.all_input_nodes[0]
    return node.op == "placeholder"


def _views_read(nodes: list[Node]) -> list[Node]:
    """Views of inputs that these nodes read and do not make, each after what
    it is made from."""
    own, found = set(nodes), dict[Node, None]()

    def add(node: Node) -> None:
        if node in own or node in found or not _is_view_of_input(node):
            return
        for n in node.all_input_nodes:
            add(n)
        found[node] = None

    for node in nodes:
        for n in node.all_input_nodes:
            add(n)
    return list(found)


# --- Symbols ------------------------------------------------------------------


def _bindings(node: Node) -> dict[Any, Any]:
    """The sizes that become known with this node's result: symbol -> where."""
    from torch.fx.experimental.symbolic_shapes import (
        resolve_unbacked_bindings,
    )

    bindings = node.meta.get("unbacked_bindings")
    if not bindings:
        return {}
    return resolve_unbacked_bindings(_shape_env(node.meta["val"]), bindings
                                     ) or {}


def _places(tensor: torch.Tensor) -> list[Any]:
    """Its sizes, strides and offset, each of which may be a symbol."""
    if tensor.layout is not torch.strided:
        return [*tensor.shape]
    return [*tensor.shape, *tensor.stride(), tensor.storage_offset()]


def _shape_env(value: Any) -> Any:
    """Of the first symbolic number in there, or None."""
    for leaf in pytree.tree_leaves(value):
        is_tensor = isinstance(leaf, torch.Tensor)
        for size in _places(leaf) if is_tensor else (leaf,):
            if isinstance(size, (torch.SymInt, torch.SymFloat, torch.SymBool)):
                return size.node.shape_env
    return None


def _symbol(value: Any) -> Any:
    """The symbol that a SymInt is, or None."""
    if not isinstance(value, torch.SymInt):
        return None
    expression = value.node.expr
    return expression if expression.is_symbol else None


def _symbols_of(value: Any) -> set[Any]:
    from torch.fx.experimental.symbolic_shapes import free_symbols

    found: set[Any] = set()
    for leaf in pytree.tree_leaves(value):
        is_tensor = isinstance(leaf, torch.Tensor)
        for n in _places(leaf) if is_tensor else (leaf,):
            if isinstance(n, torch.SymInt):
                found |= free_symbols(n)
    return found


def _dims(node: Node) -> Iterable[tuple[Any, int]]:
    """Symbols that an argument's sizes, strides and offset give, each with its
    position among them."""
    value = node.meta.get("val")
    if isinstance(value, torch.Tensor):
        for d, size in enumerate(_places(value)):
            if _symbol(size) is not None:
                yield _symbol(size), d


# --- Steps --------------------------------------------------------------------


@dataclass
class _Call:
    """A node that Python calls."""

    node: Node
    bindings: dict[Any, Any]  # symbol -> where its result has it

    def reads(self) -> list[Any]:
        return list(self.node.all_input_nodes)

    def run(self, env: Env) -> None:
        node = self.node
        args, kwargs = torch.fx.node.map_arg(
            (node.args, node.kwargs), env.__getitem__)
        result = node.target(*args, **kwargs)
        env[node] = result
        for symbol, path in self.bindings.items():
            env[symbol] = int(pytree.key_get(result, path))


@dataclass
class _Size:
    """A size that is known by its symbol."""

    node: Node
    symbol: Any

    def reads(self) -> list[Any]:
        return [self.symbol]

    def run(self, env: Env) -> None:
        env[self.node] = env[self.symbol]


@dataclass
class _Segment:
    nodes: list[Node] = field(default_factory=list)
    takes: list[Any] = field(default_factory=list)  # nodes and symbols
    gives: list[Node] = field(default_factory=list)
    compiled: Any = None

    def reads(self) -> list[Any]:
        return self.takes

    def run(self, env: Env) -> None:
        results = self.compiled([env[t] for t in self.takes])
        for node, result in zip(self.gives, results):
            env[node] = result


# --- Cutting ------------------------------------------------------------------


class _Cutter:
    def __init__(self, gm: GraphModule, alone: Container[Node]) -> None:
        self.gm, self.alone = gm, alone
        self.steps: list[Any] = []
        self.open = _Segment()
        self.members: set[Node] = set()
        self.inputs: list[Node] = []
        self.output: Any = None
        self.symbols: set[Any] = set()
        for node in gm.graph.nodes:
            self._add(node)
        self._close()

    def _add(self, node: Node) -> None:
        if node.op == "placeholder":
            self.inputs.append(node)
            self.symbols |= {s for s, _ in _dims(node)}
            if _symbol(node.meta.get("val")) is not None:
                self.symbols.add(_symbol(node.meta["val"]))
        elif node.op == "output":
            self.output = node.args[0]
        elif node.op == "get_attr" or not (
                node in self.alone or _runs_alone(node)):
            self.open.nodes.append(node)
            self.members.add(node)
        else:
            self._alone(node)

    def _alone(self, node: Node) -> None:
        symbol, bindings = _symbol(node.meta.get("val")), _bindings(node)
        if symbol in self.symbols and not bindings:
            self.steps.append(_Size(node, symbol))
            return
        is_ordered = bool(getattr(node.target, "_schema", None)) and (
            torch.Tag.nondeterministic_seeded in node.target.tags)
        if is_ordered or any(n in self.members for n in node.all_input_nodes):
            self._close()
        self.steps.append(_Call(node, bindings))
        self.symbols |= set(bindings)

    def _close(self) -> None:
        if self.open.nodes:
            self.steps.append(self.open)
        self.open = _Segment()
        self.members = set()


def _graph_of(gm: GraphModule, segment: _Segment, kept: set[Node]
              ) -> GraphModule:
    """A segment as a graph of its own: its inputs: the values it reads and the
    symbols that its values have; its outputs what is read after it."""
    graph = torch.fx.Graph()
    copies: dict[Node, Node] = {}
    nodes = _views_read(segment.nodes) + segment.nodes
    own = set(nodes)
    symbols: set[Any] = set()
    for node in nodes:
        symbols |= _symbols_of(node.meta.get("val"))
        for n in node.all_input_nodes:
            if n in own or n in copies:
                continue
            symbols |= _symbols_of(n.meta.get("val"))
            copies[n] = graph.placeholder(n.name)
            copies[n].meta = n.meta
            segment.takes.append(n)
    shape_env = _shape_env([n.meta.get("val") for n in gm.graph.nodes])
    # Sizes come before the tensors that they size.
    first = next(iter(graph.nodes), None)
    given = {_symbol(n.meta.get("val")) for n in copies}
    sizes = sorted(symbols - given, key=str)
    with graph.inserting_before(first):
        for symbol in sizes:
            size = graph.placeholder(f"size_{symbol}")
            size.meta = {"val": shape_env.create_symintnode(symbol, hint=None)}
    segment.takes[:0] = sizes
    for node in nodes:
        copies[node] = graph.node_copy(node, copies.__getitem__)
    segment.gives = [n for n in segment.nodes if n in kept]
    graph.output(tuple(copies[n] for n in segment.gives))
    return GraphModule(gm, graph)


# --- Running ------------------------------------------------------------------


class Segments:
    """The callable: boxed, like a compiled graph."""

    _boxed_call = True

    def __init__(self, gm: GraphModule,
                 compile_one: Callable[[GraphModule, int], Any],
                 alone: Container[Node] = ()) -> None:
        """`alone`: nodes to cut at beside those whose sizes depend on data."""
        cut = _Cutter(gm, alone)
        self._steps = cut.steps
        self._inputs = [(n, _symbol(n.meta.get("val")), list(_dims(n)))
                        for n in cut.inputs]
        self._output = cut.output
        last = self._kept(cut)
        number = 0
        for step in self._steps:
            if isinstance(step, _Segment):
                step.compiled = compile_one(
                    _graph_of(gm, step, last), number)
                number += 1
        self._last_uses()

    def calls(self) -> list[Node]:
        """The operators that Python calls."""
        return [s.node for s in self._steps if isinstance(s, _Call)
                and isinstance(s.node.target, torch._ops.OpOverload)
                and isinstance(s.node.meta.get("val"),
                               (torch.Tensor, tuple, list))]

    def _kept(self, cut: _Cutter) -> set[Node]:
        """Nodes that something outside of their segment is given."""
        home = {n: s for s in cut.steps if isinstance(s, _Segment)
                for n in s.nodes}
        read: set[Node] = set()
        for node in cut.gm.graph.nodes:
            for n in node.all_input_nodes:
                is_made_there = node in home and _is_view_of_input(n)
                if home.get(n) is not home.get(node) and not is_made_there:
                    read.add(n)
        return read

    def _last_uses(self) -> None:
        """What nobody reads after a step is dropped there."""
        kept = {n for n in pytree.tree_leaves(self._output)
                if isinstance(n, Node)}
        self._drops: list[list[Any]] = [[] for _ in self._steps]
        seen: set[Any] = set()
        for i in range(len(self._steps) - 1, -1, -1):
            for name in self._steps[i].reads():
                if name not in seen and name not in kept:
                    seen.add(name)
                    if isinstance(name, Node):
                        self._drops[i].append(name)

    def _begin(self, args: list[Any]) -> Env:
        env: Env = {}
        for (node, symbol, dims), value in zip(self._inputs, args, strict=True):
            env[node] = value
            if symbol is not None:
                env[symbol] = value
            for size, d in dims:
                env[size] = _places(value)[d]
        args.clear()
        return env

    def __call__(self, args: list[Any]) -> list[Any]:
        env = self._begin(args)
        for step, drops in zip(self._steps, self._drops):
            step.run(env)
            for name in drops:
                env.pop(name, None)
        return [env[o] if isinstance(o, Node) else o for o in self._output]
