# SPDX-License-Identifier: Apache-2.0
"""opgraft.stats(f): what became of a compiled function or module.

Which graphs belong to which call of torch.compile is read from the stack when
the backend is called: Dynamo's wrapper is there, and the same object hangs on
what torch.compile returned. Dynamo keeps compiled code by the Python code that
it came from: another instance of a class, or a second torch.compile of one
function, may run what the first compiled, and has its graphs. It may outlive
the first, so regions are kept as long as what they compiled.
"""

from __future__ import annotations

import collections
import json
import re
import sys
import weakref
from dataclasses import dataclass, field, replace
from typing import Any, Callable

import torch

from .. import _C
from . import graph_page, stats_page

_regions: list[Region] = []  # those with a graph that is alive
# By torch.compile call, what it compiled: as long as the call's result lives,
# also where Dynamo has dropped it.
_compiled: weakref.WeakKeyDictionary[Any, list[Any]] = (
    weakref.WeakKeyDictionary())
_count = 0


@dataclass
class Graph:
    """One graph of AOTAutograd's."""

    name: str
    # "forward", "backward", "inference"; a segment's number behind it, where
    # sizes depend on data
    kind: str
    compiled: Any
    refused: str | None  # why it runs as it came, or None
    backend_ns: int
    # Operators that run between segments.
    calls: list[dict[str, Any]] | None = None
    # Of a backward graph: how often, by operator.
    recomputed: dict[str, int] = field(default_factory=dict)

    def read(self) -> dict[str, Any]:
        out: dict[str, Any]
        if self.calls is not None:
            out = {"fallbacks": self.calls,
                   "in_python": sorted({c["operator"] for c in self.calls})}
        elif self.refused is None:
            out = json.loads(self.compiled.stats())
            out["in_python"] = sorted(self.compiled.in_python)
        else:
            out = {"fallbacks": [{"operator": "the whole graph",
                                  "reason": self.refused, "file": "",
                                  "line": 0}],
                   "in_python": ["the whole graph"]}
        return {"name": self.name, "kind": self.kind,
                "backend_ns": self.backend_ns,
                "recomputed": self.recomputed, **out}

    def rules(self) -> str:
        has_plans = self.calls is None and self.refused is None
        return self.compiled.rules() if has_plans else ""

    def schedule(self) -> str:
        """The plan that ran last, as JSON; "null": the engine has none."""
        read = getattr(self.compiled, "profile", None)
        return read(False) if read is not None else "null"


@dataclass(eq=False)
class Region:
    """One graph of Dynamo's: a forward and perhaps a backward."""

    name: str
    code: Any = None  # what was compiled: a weak reference to Python code
    # Of the call of torch.compile. Regions of one that is gone have the same
    # reference, and are a group still.
    owner: weakref.ref[Any] | None = None
    # What was compiled, what makes of it what Graph reads, the rest.
    _graphs: list[tuple[weakref.ref[Any], Callable[[Any], Any], Graph]] = (
        field(default_factory=list))
    _held: list[Any] = field(default_factory=list)
    _forward: set[str] = field(default_factory=set)  # names of nodes
    _recomputed: dict[str, int] = field(default_factory=dict)

    @property
    def graphs(self) -> list[Graph]:
        """Those that are alive, and stay so as long as the list."""
        return [replace(graph, compiled=read(compiled))
                for ref, read, graph in list(self._graphs)
                if (compiled := ref()) is not None]

    def nodes_note(self, kind: str, graph: torch.fx.Graph) -> None:
        """What AOTAutograd put into both graphs of a step is recomputed: it
        costs less than to keep and read it."""
        if kind == "forward":
            self._forward = {n.name for n in graph.nodes
                             if n.op == "call_function"}
        elif kind == "backward":
            self._recomputed = dict(collections.Counter(
                str(n.target) for n in graph.nodes
                if n.op == "call_function" and n.name in self._forward))

    def add(self, kind: str, compiled: Any, refused: str | None,
            backend_ns: int, read: Callable[[Any], Any] = lambda c: c) -> None:
        self._keep(compiled, Graph(
            f"{self.name}_{kind}", kind, None, refused, backend_ns,
            recomputed=self._recomputed if kind == "backward" else {}), read)

    def add_calls(self, kind: str, compiled: Any,
                  nodes: list[tuple[Any, str]], backend_ns: int) -> None:
        """Nodes that run between segments, and why, as fallbacks."""
        calls = []
        for node, reason in nodes:
            file, line = _source(node.meta)
            calls.append({
                "operator": str(node.target), "file": file, "line": line,
                "reason": reason})
        self._keep(compiled, Graph(f"{self.name}_{kind}", kind, None, None,
                                   backend_ns, calls))

    def _keep(self, compiled: Any, graph: Graph,
              read: Callable[[Any], Any] = lambda c: c) -> None:
        if self.owner is None:  # only who has the region asks for it
            self._held.append(compiled)
        elif not self._graphs:
            _regions.append(self)
        self._graphs.append((weakref.ref(compiled, self._drop), read, graph))
        owner = self.owner() if self.owner is not None else None
        if owner is not None:
            _compiled.setdefault(owner, []).append(compiled)

    def _drop(self, dead: weakref.ref[Any],
              regions: list[Region] = _regions) -> None:
        # The interpreter's end takes a module's names before its objects.
        self._graphs = [kept for kept in self._graphs if kept[0] is not dead]
        if not self._graphs and self in regions:
            regions.remove(self)


def _source(meta: dict[str, Any]) -> tuple[str, int]:
    """The innermost place of a node's stack trace that is not generated, else
    its module's path with line 0: what hosts/torch/walk.c says of a node."""
    places = re.findall(r'File "((?!<opgraft )[^"]*)", line (\d+)',
                        meta.get("stack_trace") or "")
    if places:
        return places[-1][0], int(places[-1][1])
    stack = meta.get("nn_module_stack") or meta.get("fwd_nn_module_stack")
    path = list(stack.values())[-1][0] if stack else ""
    path = re.sub(r"^L\[[^]]*\]\.?", "", path)
    return (f"module {path}" if path else ""), 0


def place_of(node: torch.fx.Node) -> str:
    """"model.py:12", as far as it is known."""
    file, line = _source(node.meta)
    return _place({"file": file, "line": line}) or f"node {node.name}"


def _place(found: dict[str, Any]) -> str:
    """"model.py:12", "module encoder.0", or "" where neither is known; of
    installed packages from the package's name on."""
    file = str(found["file"]).rpartition("site-packages/")[2]
    return f"{file}:{found['line']}" if file and found["line"] else file


_REASONS = (("fallbacks", "fallback"), ("host_loops", "runs on torch's threads:"),
            ("clones", "copy in"), ("unquantised", "not quantised:"),
            ("unfused", "unfused"), ("epilogues_refused", "no epilogue"))
_PLACES, _LINES = 3, 12  # that are named


def _reasons(graph: dict[str, Any]) -> list[str]:
    """Why nodes do not run as they could: a line for each operator and reason,
    however many nodes have them."""
    lines = []
    for key, words in _REASONS:
        places: dict[tuple[str, str], list[str]] = {}
        for node in graph.get(key, ()):
            name = node["operator"] if key != "epilogues_refused" else ""
            places.setdefault((name, node["reason"]), []).append(_place(node))
        for (name, reason), found in places.items():
            named = list(dict.fromkeys(filter(None, found)))
            where = ", ".join(named[:_PLACES])
            if len(named) > _PLACES:
                where += f" and {len(named) - _PLACES} more"
            if len(found) > 1:
                where = f"{len(found)} times" + (f": {where}" if where else "")
            lines.append(f"  {words}" + (f" {name}" if name else "")
                         + (f" ({where})" if where else "") + f": {reason}")
    left = len(lines) - _LINES
    return lines[:_LINES] + [
        f"  and {left} more: stats(f).html() has each"] * (left > 0)


def region_begin() -> Region:
    """A region of the torch.compile call that is under way."""
    global _count
    _count += 1
    owner, code = _compiled_on_stack()
    return Region(f"graph_{_count}",
                  weakref.ref(code) if code is not None else None,
                  weakref.ref(owner) if owner is not None else None)


def _compiled_on_stack() -> tuple[Any, Any]:
    """The torch.compile under way, and the code that it compiles now."""
    frame: Any = sys._getframe(1)
    code = None
    while frame is not None:
        name = frame.f_code.co_name
        if name == "_compile" and code is None:
            code = frame.f_locals.get("code")
        if name == "compile_wrapper":
            owner = frame.f_locals.get("self")
            if owner is not None:
                return owner, code
        frame = frame.f_back
    return None, code


def _owner_of(f: Any) -> Any:
    found = getattr(f, "dynamo_ctx", None)
    if found is not None:
        return found
    # module.compile(...) keeps the compiled function in this attribute.
    f = getattr(f, "_compiled_call_impl", None) or f
    f = getattr(f, "__func__", f)
    cells = dict(zip(
        getattr(getattr(f, "__code__", None), "co_freevars", ()),
        getattr(f, "__closure__", None) or (),
    ))
    if "self" in cells and hasattr(f, "_torchdynamo_orig_callable"):
        return cells["self"].cell_contents
    return None


def _code_of(f: Any) -> Any:
    """The Python code that Dynamo compiles first for it."""
    f = getattr(f, "_orig_mod", f)
    if isinstance(f, torch.nn.Module):
        f = f.forward
    f = getattr(f, "_torchdynamo_orig_callable", f)
    return getattr(getattr(f, "__func__", f), "__code__", None)


def _shared_regions(f: Any) -> list[Region]:
    """Those that another compiled of the same code, which may be gone."""
    code = _code_of(f)
    for region in list(_regions):
        if region.code is not None and region.code() is code:
            return [r for r in list(_regions) if r.owner is region.owner]
    return []


def _narrowed(found: dict[str, Any]) -> str:
    count, weights = found["narrow_contractions"], found["quantised_weights"]
    text = f"  {count} contraction{'s' if count > 1 else ''} narrowed"
    return text if weights == 0 else (
        f"{text}, {weights} weight{'s' if weights > 1 else ''} quantised, off by "
        f"{found['quantised_error']:.3%} at most")


def _counted(lines: list[str]) -> list[str]:
    """Each line once, at its first place, and how often it stood there."""
    return [line if count == 1 else f"{line} ({count} times)"
            for line, count in collections.Counter(lines).items()]


_SUMS = ("nodes", "views", "native", "host_nodes", "fast_nodes", "clone_bytes",
         "replays", "plans", "instances", "row_programs",
         "programs_compiled", "fused_nodes", "epilogues",
         "narrow_contractions", "quantised_weights", "launches",
         "captures", "recaptures", "device_waits", "warm_ups", "eager_calls",
         "evictions", "copied_inputs", "lent_results", "copied_results",
         "stream_waits")
_LARGEST = ("arena_bytes", "lower_bound_bytes", "shared_bytes", "lanes",
            "quantised_error")


class Stats:
    """Attributes: `graphs` (a list of dicts, one for each graph), and over all
    of them `nodes` (without views), `native`, `fallbacks` (a list of dicts:
    operator, reason, file, line), `in_python` (operators that Python runs),
    `host_nodes` (native nodes that ATen ran), `fast_nodes` (that a fast kernel
    of ours ran; rules() says of each node which kernel runs it, and why),
    `host_loops` (a list of dicts: nodes for whose sake a plan runs on torch's
    threads; `threads` of a graph says "engine", "host" or "one"),
    `row_programs` (fused loops, of mode max-autotune), `programs_compiled`
    (equal ones are one), `fused_nodes` (that they took the place of), `unfused`
    (a list of dicts: nodes that are in none, and why), `epilogues` (fused loops that run on each finished tile of the
    contraction that they read), `epilogues_refused` (a list of dicts: those
    that do not, and why), `narrow_contractions` (those that option `precision`
    had rounded), `quantised_weights` and `quantised_error` (the largest of these weights'
    errors: what rounding lost over what there is, as root mean squares),
    `unquantised` (a list of dicts: contractions whose weights option
    `precision` has not changed, and why),
    `recomputed` (a dict of counts: operators of a backward graph that the
    forward graph has as well, since to keep their results costs more),
    `replays`, `replans` (by cause: shape, lanes, moved input, moved arena),
    `lanes` (most that run at once; each graph has its `sections`, and the time
    of a replay without lanes and with: `serial_ns`, `lanes_ns`),
    `clones` (a list of dicts) and `clone_bytes`, `arena_bytes`,
    `lower_bound_bytes`, `shared_bytes`; of graphs on a device `launches` (what
    the host gave it, in all replays), `captures`, `recaptures` (because an
    address moved that a capture freezes) and `device_waits` (of the host for
    the device); of graphs on CUDA `captures`, `recaptures`, `causes` (of
    captures, and of calls that ran node by node: a dict of counts), `warm_ups`,
    `eager_calls`, `evictions`, `copied_inputs`, `lent_results`,
    `copied_results`, `stream_waits`. `is_shared`: another instance compiled
    them, and counts are of both. str() is a table, json() all of it."""

    def __init__(self, graphs: list[Graph], is_shared: bool = False) -> None:
        self.is_shared = is_shared
        self._rules = "".join(g.rules() for g in graphs)
        self.graphs = [g.read() for g in graphs]
        self._plans = [g.schedule() for g in graphs]
        for name in _SUMS:
            setattr(self, name, sum(g.get(name, 0) for g in self.graphs))
        for name in _LARGEST:
            setattr(self, name,
                    max((g.get(name, 0) for g in self.graphs), default=0))
        self.fallbacks = [f for g in self.graphs for f in g["fallbacks"]]
        self.in_python = sorted({n for g in self.graphs
                                 for n in g["in_python"]})
        self.clones = [c for g in self.graphs for c in g.get("clones", ())]
        self.unfused = [u for g in self.graphs
                        for u in g.get("unfused", ())]
        self.host_loops = [n for g in self.graphs
                           for n in g.get("host_loops", ())]
        self.unquantised = [n for g in self.graphs
                            for n in g.get("unquantised", ())]
        self.epilogues_refused = [e for g in self.graphs
                                  for e in g.get("epilogues_refused", ())]
        self.recomputed: dict[str, int] = {}
        for g in self.graphs:
            for name, count in g["recomputed"].items():
                self.recomputed[name] = self.recomputed.get(name, 0) + count
        self.causes: dict[str, int] = {}
        for g in self.graphs:
            for cause, count in g.get("causes", {}).items():
                self.causes[cause] = self.causes.get(cause, 0) + count
        self.replans = {
            "shape": sum(g.get("replans_shape", 0) for g in self.graphs),
            "lanes": sum(g.get("replans_lanes", 0) for g in self.graphs),
            "moved_input": sum(g.get("rebinds_input", 0) for g in self.graphs),
            "moved_arena": sum(g.get("rebinds_arena", 0) for g in self.graphs),
        }

    def json(self) -> str:
        return json.dumps({k: v for k, v in vars(self).items()
                           if not k.startswith("_")}, indent=1)

    def rules(self) -> str:
        """Which kernel runs which node of the plans that are kept, and why:
        what `options={"choose": FILE}` takes."""
        return self._rules

    def __str__(self) -> str:
        lines = ["compiled by another instance of the same code; the counts "
                 "are of both"] if self.is_shared else []
        for g in self.graphs:
            lines.append(
                f"{g['name']} ({g['kind']}): {g.get('nodes', 0)} nodes, "
                f"{g.get('native', 0)} native, {len(g['fallbacks'])} "
                f"fallbacks, {g.get('replays', 0)} replays, arena "
                f"{g.get('arena_bytes', 0)} bytes (lower bound "
                f"{g.get('lower_bound_bytes', 0)}), backend "
                f"{g['backend_ns'] / 1e6:.2f} ms"
            )
            if g.get("narrow_contractions", 0) > 0:
                lines.append(_narrowed(g))
            if g.get("lanes", 1) > 1:
                lines.append(
                    f"  {g['sections']} sections in up to {g['lanes']} lanes: "
                    f"{g['lanes_ns'] / 1e3:.1f} us a replay, "
                    f"{g['serial_ns'] / 1e3:.1f} without")
            if g["recomputed"]:
                lines.append("  recomputed: " + ", ".join(
                    f"{name} {count} times" if count > 1 else name
                    for name, count in g["recomputed"].items()))
            if g.get("launches"):
                lines.append(
                    f"  on a device: {g['launches']} launches, "
                    f"{g['captures']} captures, {g['recaptures']} again, "
                    f"{g['device_waits']} waits")
            if "causes" in g:
                lines.append(
                    f"  on {g['device']}: {g['warm_ups']} warm-ups, "
                    f"{g['captures']} captures, {g['replays']} replays, "
                    f"{g['eager_calls']} calls node by node; "
                    f"{g['copied_inputs']} inputs copied, {g['lent_results']} "
                    f"results lent, {g['copied_results']} copied")
                lines += [f"  {count} times: {cause}"
                          for cause, count in g["causes"].items()]
            if g.get("row_programs"):
                lines.append(
                    f"  {g['row_programs']} row programs of "
                    f"{g['fused_nodes']} nodes, {len(g['unfused'])} unfused, "
                    f"{g['epilogues']} as epilogues")
            lines += _reasons(g)
        return "\n".join(_counted(lines)) or "no graph was compiled"

    __repr__ = __str__

    def html(self) -> str:
        """A page of it, which fetches nothing: each graph as a picture that
        zooms and searches, who runs each node and why, memory over time."""
        plans: list[Any] = [json.loads(text) for text in self._plans]
        for plan in plans:
            for node in plan["nodes"] if plan else ():
                node.pop("ns", None)  # of calls that opgraft.profile made
        return graph_page.page("opgraft.stats", list(
            zip(self.graphs, plans, strict=True)))

    def _repr_html_(self) -> str:
        return stats_page.fragment(self)


def stats(f: Any) -> Stats:
    """What became of a model: of what torch.compile(..., backend="opgraft"),
    opgraft.freeze or opgraft.load_graph returned.

    TypeError for anything else.

        >>> f = torch.compile(lambda x: torch.relu(x) + 1, backend="opgraft")
        >>> y = f(torch.ones(3))
        >>> opgraft.stats(f)
        graph_...: 2 nodes, 2 native, 0 fallbacks, 1 replays, arena ...
    """
    return Stats(*_graphs_of(f, "stats"))


def graphs_of(f: Any) -> list[Graph]:
    """Those that opgraft.stats tells of."""
    return _graphs_of(f, "profile")[0]


def _graphs_of(f: Any, asker: str) -> tuple[list[Graph], bool]:
    """And whether another compiled them. TypeError where `f` is not compiled."""
    graph = getattr(f, "graph", None)
    if isinstance(graph, _C.CompiledGraph):  # frozen, or loaded from a file
        name = json.loads(graph.stats())["graph"]
        return [Graph(name, "inference", graph, None, 0)], False
    owner = _owner_of(f)
    if owner is None:
        raise TypeError(
            f"opgraft.{asker}: {type(f).__name__} is not compiled; expected "
            "what torch.compile, opgraft.freeze or opgraft.load_graph returned")
    own = [r for r in list(_regions) if r.owner and r.owner() is owner]
    found = own or _shared_regions(f)
    return [g for r in found for g in r.graphs], not own and bool(found)
