#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes docs/coverage.md: which operators the test models use, and how each
runs: in the engine, by ATen's kernels on the plan's memory, or fallen back.

Models are tests/python/graph/models.py, small, in training and inference. Ends
with a line for each goal; contractions, which ATen computes, are counted apart.
"""

from __future__ import annotations

import argparse
import collections
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests/python/graph"), str(ROOT / "bench")]

import harness  # type: ignore[import-not-found]  # noqa: E402
import models  # type: ignore[import-not-found]  # noqa: E402
import torch  # noqa: E402

import opgraft  # noqa: E402
from opgraft import _C  # noqa: E402
from opgraft._graph import backend, stats  # noqa: E402

NATIVE_MIN = 0.95
CONTRACTIONS = ("matmul", "addmm", "convolution", "convolution_backward",
                "attention", "attention_backward")

seen: dict[str, set[str]] = collections.defaultdict(set)


def watch(name: str) -> Any:
    """Notes every operator of the graphs that the backend gets."""
    plain = backend.compile_graph

    def compile_graph(gm: Any, *args: Any) -> Any:
        for node in gm.graph.nodes:
            if node.op == "call_function" and isinstance(
                    node.target, torch._ops.OpOverload):
                seen[str(node.target)].add(name)
        return plain(gm, *args)

    backend.compile_graph = compile_graph  # type: ignore[assignment]
    return plain


def contractions(compiled: Any) -> int:
    """Nodes of the graphs that were compiled."""
    return sum(
        len(re.findall(rf" = ({'|'.join(CONTRACTIONS)})\(", g.compiled.text()))
        for g in stats.graphs_of(compiled) if g.refused is None)


def run(name: str, entry: models.Model) -> Any:
    torch._dynamo.reset()
    torch.manual_seed(1)
    model, args, kwargs = entry.build(False)
    plain = watch(name)
    try:
        compiled = torch.compile(model, backend="opgraft")
        if entry.trained:
            compiled(*args, **kwargs).float().square().mean().backward()
        model.eval()
        with torch.no_grad():
            compiled(*args, **kwargs)
    finally:
        backend.compile_graph = plain
    return opgraft.stats(compiled), contractions(compiled)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path,
                        default=ROOT / "docs/coverage.md")
    options = parser.parse_args()
    rows = {f"aten.{name}" for name in _C.graph_rows()}
    fallbacks: dict[str, str] = {}
    goals = harness.Goals("coverage")
    table = []
    for name, entry in models.ALL.items():
        found, of_aten = run(name, entry)
        for f in found.fallbacks:
            fallbacks[f["operator"]] = f["reason"]
        own = found.nodes - of_aten
        share = (found.native - of_aten) / own
        table.append(f"| {name} | {found.nodes} | {of_aten} | {share:.1%} | "
                     f"{found.host_nodes} | {len(found.fallbacks)} | "
                     f"{', '.join(found.in_python)} |")
        goals.add(f"{name}: native share of {own} nodes", share, NATIVE_MIN,
                  at_most=False)
        goals.add(f"{name}: operators that Python runs",
                  len(found.in_python), 0)
    lines = [
        "# Coverage",
        "",
        "Written by `tools/coverage_page.py`: the models of "
        "tests/python/graph/models.py, small, in training and inference. "
        "Nodes do not count views. The native share is that of nodes that are "
        "not contractions; native ones include those that ATen's kernels ran "
        "on the plan's memory.",
        "",
        "| model | nodes | contractions | native | by ATen's kernels "
        "| fallbacks | through Python |",
        "|---|---|---|---|---|---|---|",
        *table, "",
        "| operator | status | models |",
        "|---|---|---|",
    ]
    for op in sorted(seen):
        if op in fallbacks:
            status = f"fallback: {fallbacks[op]}"
        elif op in rows:
            status = "engine"
        else:
            status = "view or module"
        lines.append(f"| {op} | {status} | {', '.join(sorted(seen[op]))} |")
    options.output.write_text("\n".join(lines) + "\n")
    print(f"{options.output}: {len(seen)} operators, "
          f"{len(fallbacks)} of them fall back")


if __name__ == "__main__":
    main()
