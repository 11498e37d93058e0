# SPDX-License-Identifier: Apache-2.0
"""opgraft.stats(f): what became of a compiled function or module.

Which graphs belong to which call of torch.compile is read from the stack when
the backend is called: Dynamo's wrapper is there, and the same object hangs on
what torch.compile returned.
"""

from __future__ import annotations

import json
import re
import sys
import weakref
from dataclasses import dataclass, field
from typing import Any

_regions: "weakref.WeakKeyDictionary[Any, list[Region]]" = (
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
                "backend_ns": self.backend_ns, **out}


@dataclass
class Region:
    """One graph of Dynamo's: a forward and perhaps a backward."""

    name: str
    graphs: list[Graph] = field(default_factory=list)

    def add(self, kind: str, compiled: Any, refused: str | None,
            backend_ns: int) -> None:
        self.graphs.append(
            Graph(f"{self.name}_{kind}", kind, compiled, refused, backend_ns))


    def add_calls(self, kind: str, nodes: list[Any], reason: str,
                  backend_ns: int) -> None:
        """Nodes that run between segments, as fallbacks."""
        calls = []
        for node in nodes:
            file, line = _source(node.meta.get("stack_trace") or "")
            calls.append({
                "operator": str(node.target), "file": file, "line": line,
                "reason": reason})
        self.graphs.append(Graph(f"{self.name}_{kind}", kind, None, None,
                                 backend_ns, calls))


def _source(trace: str) -> tuple[str, int]:
    """The innermost place of a stack trace's text that is not generated."""
    places = re.findall(r'File "((?!<opgraft )[^"]*)", line (\d+)', trace)
    return (places[-1][0], int(places[-1][1])) if places else ("", 0)


def region_begin() -> Region:
    """A region of the torch.compile call that is under way."""
    global _count
    _count += 1
    region = Region(f"graph_{_count}")
    owner = _owner_on_stack()
    if owner is not None:
        _regions.setdefault(owner, []).append(region)
    return region


def _owner_on_stack() -> Any:
    frame: Any = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == "compile_wrapper":
            owner = frame.f_locals.get("self")
            if owner is not None:
                return owner
        frame = frame.f_back
    return None


def _owner_of(f: Any) -> Any:
    found = getattr(f, "dynamo_ctx", None)
    if found is not None:
        return found
    f = getattr(f, "__func__", f)
    cells = dict(zip(
        getattr(getattr(f, "__code__", None), "co_freevars", ()),
        getattr(f, "__closure__", None) or (),
    ))
    if "self" in cells and hasattr(f, "_torchdynamo_orig_callable"):
        return cells["self"].cell_contents
    return None


_SUMS = ("nodes", "views", "native", "host_nodes", "clone_bytes", "replays",
         "plans", "instances")
_LARGEST = ("arena_bytes", "lower_bound_bytes", "shared_bytes", "lanes")


class Stats:
    """Attributes: `graphs` (a list of dicts, one for each graph), and over all
    of them `nodes` (without views), `native`, `fallbacks` (a list of dicts:
    operator, reason, file, line), `in_python` (operators that Python runs),
    `host_nodes` (native nodes that ATen ran),
    `replays`, `replans` (by cause: shape, lanes, moved input, moved arena),
    `lanes` (most that run at once; each graph has its `sections`, and the time
    of a replay without lanes and with: `serial_ns`, `lanes_ns`),
    `clones` (a list of dicts) and `clone_bytes`, `arena_bytes`,
    `lower_bound_bytes`, `shared_bytes`. str() is a table, json() all of it."""

    def __init__(self, regions: list[Region]) -> None:
        self.graphs = [g.read() for r in regions for g in r.graphs]
        for name in _SUMS:
            setattr(self, name, sum(g.get(name, 0) for g in self.graphs))
        for name in _LARGEST:
            setattr(self, name,
                    max((g.get(name, 0) for g in self.graphs), default=0))
        self.fallbacks = [f for g in self.graphs for f in g["fallbacks"]]
        self.in_python = sorted({n for g in self.graphs
                                 for n in g["in_python"]})
        self.clones = [c for g in self.graphs for c in g.get("clones", ())]
        self.replans = {
            "shape": sum(g.get("replans_shape", 0) for g in self.graphs),
            "lanes": sum(g.get("replans_lanes", 0) for g in self.graphs),
            "moved_input": sum(g.get("rebinds_input", 0) for g in self.graphs),
            "moved_arena": sum(g.get("rebinds_arena", 0) for g in self.graphs),
        }

    def json(self) -> str:
        return json.dumps(vars(self), indent=1)

    def __str__(self) -> str:
        lines = []
        for g in self.graphs:
            lines.append(
                f"{g['name']} ({g['kind']}): {g.get('nodes', 0)} nodes, "
                f"{g.get('native', 0)} native, {len(g['fallbacks'])} "
                f"fallbacks, {g.get('replays', 0)} replays, arena "
                f"{g.get('arena_bytes', 0)} bytes (lower bound "
                f"{g.get('lower_bound_bytes', 0)}), backend "
                f"{g['backend_ns'] / 1e6:.2f} ms"
            )
            if g.get("lanes", 1) > 1:
                lines.append(
                    f"  {g['sections']} sections in up to {g['lanes']} lanes: "
                    f"{g['lanes_ns'] / 1e3:.1f} us a replay, "
                    f"{g['serial_ns'] / 1e3:.1f} without")
            lines += [f"  fallback {f['operator']} ({f['file']}:{f['line']}): "
                      f"{f['reason']}" for f in g["fallbacks"]]
            lines += [f"  copy in {c['operator']} ({c['file']}:{c['line']}): "
                      f"{c['reason']}" for c in g.get("clones", ())]
        return "\n".join(lines) or "no graph was compiled"

    __repr__ = __str__


def stats(f: Any) -> Stats:
    """What became of what torch.compile(..., backend="opgraft") returned."""
    owner = _owner_of(f)
    if owner is None:
        raise TypeError(
            f"opgraft.stats: {f!r} is not what torch.compile returned")
    return Stats(_regions.get(owner, []))
