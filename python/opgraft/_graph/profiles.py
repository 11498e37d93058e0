# SPDX-License-Identifier: Apache-2.0
"""opgraft.profile(f, ...): where the time of a call goes."""

from __future__ import annotations

import collections
import json
import statistics
import time
from dataclasses import dataclass
from typing import Any

import torch

from . import graph_page, stats

LINES = 20  # of str(): operators


@dataclass
class Node:
    """One node of a plan: `us` microseconds a call, of its own."""

    graph: str
    operator: str
    by: str
    file: str
    line: int
    us: float


class Profile:
    """`call_us`: median time of a call, untimed inside; `nodes`: a list of Node,
    whose times come from calls that ran step by step, on one lane; `us`: their
    sum. str() is a table by operator, html() a page with the graphs, trace() a
    timeline for Perfetto. Nothing of it raises.

        >>> f = torch.compile(lambda x: torch.relu(x) @ x.T, backend="opgraft")
        >>> p = opgraft.profile(f, torch.ones(64, 64))
        >>> [node.operator for node in p.nodes]
        ['aten.relu.default', 'aten.mm.default']
        >>> import json
        >>> sorted(json.loads(p.json()))
        ['call_us', 'nodes', 'us']
        >>> len(json.loads(p.trace())["traceEvents"])
        2
        >>> "aten.mm.default" in p.html()
        True
    """

    def __init__(self, call_us: float, graphs: list[Any]) -> None:
        self.call_us = call_us
        self._graphs = graphs  # (stats, plan with "ns" a call)
        self.nodes = [
            Node(said["name"], node["operator"], node["by"], node["file"],
                 node["line"], node["ns"] / 1e3)
            for said, plan in graphs for node in plan["nodes"] if node["ns"]]
        self.us = sum(n.us for n in self.nodes)

    def __str__(self) -> str:
        sums: dict[tuple[str, str], list[float]] = collections.defaultdict(list)
        for node in self.nodes:
            sums[node.operator, node.by].append(node.us)
        rows = sorted(sums.items(), key=lambda row: -sum(row[1]))
        lines = [f"{self.call_us:.1f} us a call, {self.us:.1f} us in "
                 f"{len(self.nodes)} nodes"]
        lines += [f"{sum(us):>10.1f} us {100 * sum(us) / (self.us or 1):>3.0f} %"
                  f" {len(us):>4} x {operator} ({by})"
                  for (operator, by), us in rows[:LINES]]
        if len(rows) > LINES:
            rest = sum(sum(us) for _, us in rows[LINES:])
            lines.append(f"{rest:>10.1f} us in {len(rows) - LINES} more")
        return "\n".join(lines)

    __repr__ = __str__

    def json(self) -> str:
        """call_us, us and nodes."""
        return json.dumps({"call_us": self.call_us, "us": self.us,
                           "nodes": [vars(n) for n in self.nodes]}, indent=1)

    def html(self) -> str:
        """A page of the graphs, self-contained: each node's time, who runs it."""
        return graph_page.page("opgraft.profile", self._graphs)

    def trace(self) -> str:
        """A call's nodes one after another, as Chrome's trace JSON."""
        events, begin = [], 0.0
        for node in self.nodes:
            events.append({
                "name": node.operator, "cat": node.by, "ph": "X", "pid": 0,
                "tid": node.graph, "ts": begin, "dur": node.us,
                "args": {"by": node.by, "at": f"{node.file}:{node.line}"}})
            begin += node.us
        return json.dumps({"traceEvents": events, "displayTimeUnit": "ns"})

    def _repr_html_(self) -> str:
        return f"<pre>{self}</pre>"


def profile(f: Any, *args: Any, calls: int = 20, **kwargs: Any) -> Profile:
    """Where the time of `f(*args, **kwargs)` goes, for an `f` that
    torch.compile(..., backend="opgraft"), opgraft.freeze or opgraft.load_graph
    returned.

    It is called once to be compiled, then twice `calls` times: as it is, and
    with the time of each node, one after another. Gradients are off.

    TypeError for another `f`, ValueError for `calls` below 1; what `f` raises.

        >>> f = torch.compile(lambda x: torch.relu(x) @ x.T, backend="opgraft")
        >>> opgraft.profile(f, torch.ones(64, 64)).us > 0
        True
    """
    if calls < 1:
        raise ValueError(f"opgraft.profile: calls is {calls}, expected 1 or more")
    with torch.no_grad():
        f(*args, **kwargs)
        graphs = stats.graphs_of(f)
        times = []
        for _ in range(calls):
            begin = time.perf_counter_ns()
            f(*args, **kwargs)
            times.append(time.perf_counter_ns() - begin)
        found = _timed(f, args, kwargs, graphs, calls)
    return Profile(statistics.median(times) / 1e3, found)


def _timed(f: Any, args: Any, kwargs: Any, graphs: list[Any],
           calls: int) -> list[Any]:
    planned = [g for g in graphs if hasattr(g.compiled, "profile")]
    before = [json.loads(g.compiled.profile(True)) for g in planned]
    for _ in range(calls):
        f(*args, **kwargs)
    out = []
    for g, old in zip(planned, before, strict=True):
        plan = json.loads(g.compiled.profile(False))
        if not any(node.get("ns") for node in plan["nodes"]):
            continue  # the call did not run it
        is_same = plan["symbols"] == old["symbols"]
        for i, node in enumerate(plan["nodes"]):
            past = old["nodes"][i].get("ns", 0) if is_same else 0
            node["ns"] = (node["ns"] - past) / calls
        out.append((g.read(), plan))
    return out
