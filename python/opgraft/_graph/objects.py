# SPDX-License-Identifier: Apache-2.0
"""Inputs of a graph other than tensors and numbers, such as a DeviceMesh.

AOTAutograd hands what a DTensor is made of through the graph; no node computes
with it. The engine's graph has None in its place.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable

import torch
from torch.fx import GraphModule, Node


@dataclass
class Objects:
    inputs: list[int]
    outputs: list[tuple[int, int]]  # its place, that of the input

    def around(self, compiled: Callable[..., Any]) -> Callable[..., Any]:
        """The graph as AOTAutograd calls it."""
        if not self.inputs:
            return compiled

        def call(args: list[Any]) -> Any:
            held = {i: args[i] for i in self.inputs}
            for i in held:
                args[i] = None
            results = list(compiled(args))
            for at, i in self.outputs:
                results[at] = held[i]
            return results

        call._boxed_call = True  # type: ignore[attr-defined]
        return call


def _is_object(value: Any) -> bool:
    return not (value is None or isinstance(
        value, (torch.Tensor, int, float, bool, torch.SymInt, torch.SymFloat,
                torch.SymBool)))


def take_out(gm: GraphModule) -> Objects:
    """Puts None where objects are, if nothing but the output reads them."""
    nodes = [n for n in gm.graph.nodes if n.op == "placeholder"]
    output = next(n for n in reversed(gm.graph.nodes) if n.op == "output")
    found = {n: i for i, n in enumerate(nodes)
             if _is_object(n.meta.get("val"))
             and all(u is output for u in n.users)}
    results = output.args[0]
    outputs = [(at, found[r]) for at, r in enumerate(results)
               if isinstance(r, Node) and r in found]
    if outputs:
        output.args = (tuple(None if isinstance(r, Node) and r in found else r
                             for r in results),)
    for node in found:
        node.meta["val"] = None
    return Objects(list(found.values()), outputs)
