# SPDX-License-Identifier: Apache-2.0
"""opgraft.stats(f) in a notebook, without scripts: who runs the nodes, memory
against its bound, what falls back, is copied or stays unfused, with its line."""

from __future__ import annotations

from html import escape
from typing import Any

_STYLE = """<style>
.opgraft{font:14px/1.4 sans-serif;max-width:60em;overflow-wrap:anywhere}
.opgraft table{border-collapse:collapse}
.opgraft td,.opgraft th{padding:.15em .6em;text-align:left;vertical-align:top}
.opgraft .bar{display:flex;height:1em;min-width:8em;background:#d0d7de}
.opgraft .bar i{display:block;height:100%}
.opgraft .own{background:#2da44e}.opgraft .host{background:#2f81f7}
.opgraft .back{background:#cf222e}
</style>"""
# (key of a graph, its title, the field with the operator)
_LISTS = (("fallbacks", "Fallbacks", "operator"),
          ("clones", "Copies", "operator"),
          ("unfused", "Unfused", "operator"),
          ("epilogues_refused", "No epilogue", None))


def _bar(parts: list[tuple[str, float]]) -> str:
    """Parts of one, each with the class of its colour."""
    return '<div class="bar">' + "".join(
        f'<i class="{kind}" style="width:{100 * part:.1f}%"></i>'
        for kind, part in parts if part > 0) + "</div>"


def _nodes(graph: dict[str, Any]) -> str:
    total = max(graph.get("nodes", 0), len(graph["fallbacks"]), 1)
    host = graph.get("host_nodes", 0)
    back = len(graph["fallbacks"])
    own = max(graph.get("native", 0) - host, 0)
    return _bar([("own", own / total), ("host", host / total),
                 ("back", back / total)])


def _memory(graph: dict[str, Any]) -> str:
    arena = graph.get("arena_bytes", 0)
    bound = graph.get("lower_bound_bytes", 0)
    if not arena:
        return "none"
    return (f"{arena:,} bytes, lower bound {bound:,}"
            + _bar([("own", min(bound / arena, 1))]))


def _row(graph: dict[str, Any]) -> str:
    cells = [escape(f"{graph['name']} ({graph['kind']})"),
             f"{graph.get('nodes', 0)} {_nodes(graph)}", _memory(graph),
             str(graph.get("replays", 0)),
             f"{graph['backend_ns'] / 1e6:.2f} ms"]
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"


def _details(graphs: list[dict[str, Any]], key: str, title: str,
             named: str | None) -> str:
    found = [entry for graph in graphs for entry in graph.get(key, ())]
    if not found:
        return ""
    rows = "".join(
        "<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in (
            entry[named] if named else "",
            f"{entry['file']}:{entry['line']}" if entry["line"]
            else entry["file"], entry["reason"])) + "</tr>"
        for entry in found)
    return (f"<details open><summary>{title}: {len(found)}</summary><table>"
            f"{rows}</table></details>")


def fragment(stats: Any) -> str:
    """What a notebook shows."""
    if not stats.graphs:
        return '<div class="opgraft">no graph was compiled</div>'
    head = "".join(f"<th>{name}</th>" for name in (
        "Graph", "Nodes", "Memory", "Replays", "Backend"))
    shared = ("<p>Compiled by another instance of the same code; the counts "
              "are of both.</p>" if stats.is_shared else "")
    legend = ('<p><b class="own">&emsp;</b> ours <b class="host">&emsp;</b> '
              'ATen\'s kernels <b class="back">&emsp;</b> fallbacks</p>')
    return (f'{_STYLE}<div class="opgraft">{shared}<table><tr>{head}</tr>'
            + "".join(_row(g) for g in stats.graphs) + f"</table>{legend}"
            + "".join(_details(stats.graphs, *which) for which in _LISTS)
            + "</div>")
