# SPDX-License-Identifier: Apache-2.0
"""Compiled graphs as one page: a picture that zooms and searches, what each
node is and who runs it, memory over time (assets/graph.html and d3)."""

from __future__ import annotations

import functools
import json
import pathlib
from typing import Any

_ASSETS = pathlib.Path(__file__).resolve().parents[1] / "assets"
# (key of a graph of opgraft.stats, its title, the field with the operator)
_LISTS = (("fallbacks", "Fallbacks", "operator"),
          ("clones", "Copies", "operator"),
          ("host_loops", "On PyTorch's threads", "operator"),
          ("unfused", "Unfused", "operator"),
          ("epilogues_refused", "No epilogue", ""))


@functools.cache
def _template() -> list[str]:
    """What stands before the data, and behind."""
    text = (_ASSETS / "graph.html").read_text(encoding="utf-8")
    d3 = (_ASSETS / "d3.min.js").read_text(encoding="utf-8")
    return text.replace("/*D3*/", d3).split("/*DATA*/null")


def _lists(graph: dict[str, Any]) -> list[Any]:
    return [[title, [[entry.get(named, "") or "", f"{entry['file']}:{entry['line']}"
                      if entry["line"] else entry["file"], entry["reason"]]
                     for entry in graph.get(key, ())]]
            for key, title, named in _LISTS]


def _notes(graph: dict[str, Any]) -> list[str]:
    text = (f"{graph.get('nodes', 0)} nodes, {graph.get('native', 0)} native, "
            f"{graph.get('host_nodes', 0)} by PyTorch's kernels; "
            f"{graph.get('replays', 0)} replays")
    return [text] + ([f"{graph['row_programs']} fused programs of "
                      f"{graph['fused_nodes']} nodes"]
                     if graph.get("row_programs") else [])


def page(title: str, graphs: list[tuple[dict[str, Any], Any]]) -> str:
    """A whole document, which fetches nothing. Of each graph: what opgraft.stats
    says of it, and its plan (None: it has none), with "ns" where nodes were
    timed."""
    empty: dict[str, Any] = {"values": [], "nodes": [], "arenas": [], "buffers": []}
    data = {"title": title, "graphs": [
        {"title": f"{stats['name']} ({stats['kind']})",
         "notes": _notes(stats), "lists": _lists(stats),
         "schedule": plan if plan and plan["nodes"] else empty}
        for stats, plan in graphs]}
    before, after = _template()
    # A text of the data must not end its script.
    return before + json.dumps(data).replace("<", "\\u003c") + after
