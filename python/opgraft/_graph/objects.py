# SPDX-License-Identifier: Apache-2.0
"""Inputs of a graph that the engine does not compute with: objects such as a
DeviceMesh or a layer's name, and the ragged size of a jagged tensor.

AOTAutograd hands what a subclass is made of, and objects that operators take,
through the graph. A result that is one is put back around the engine's graph,
and a node that takes one gets it from the call's arguments.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable

import torch
from torch.fx import GraphModule, Node


class Passed:
    """What nodes see as the value of such an input."""

    def __init__(self, is_ordered: bool) -> None:
        self.is_ordered = is_ordered  # operators may change it


@dataclass
class Objects:
    unread: list[int]
    outputs: list[tuple[int, int]]  # its place, that of the input

    def around(self, compiled: Callable[..., Any]) -> Callable[..., Any]:
        """The graph as AOTAutograd calls it."""
        if not self.unread and not self.outputs:
            return compiled

        def call(args: list[Any]) -> Any:
            held = [args[i] for _, i in self.outputs]
            for i in self.unread:
                args[i] = None
            results = list(compiled(args))
            for (at, _), value in zip(self.outputs, held):
                results[at] = value
            return results

        call._boxed_call = True  # type: ignore[attr-defined]
        return call


def _is_object(value: Any) -> bool:
    if isinstance(value, torch.SymInt):
        return bool(value.node.is_nested_int())
    return not (value is None or isinstance(
        value, (torch.Tensor, int, float, bool, torch.SymFloat,
                torch.SymBool)))


def _is_ordered(value: Any) -> bool:
    if isinstance(value, (Passed, torch.SymInt)):
        return getattr(value, "is_ordered", False)
    try:
        from torch._library.opaque_object import is_opaque_value_type
    except ImportError:
        return True
    return not is_opaque_value_type(
        getattr(value, "script_class_name", type(value)))


def take_out(gm: GraphModule) -> Objects:
    """Puts None where objects are results, and where nothing reads one."""
    nodes = gm.graph.find_nodes(op="placeholder")
    found = {n: i for i, n in enumerate(nodes)
             if _is_object(n.meta.get("val"))}
    if not found:
        return Objects([], [])
    output = gm.graph.output_node()
    results = output.args[0]
    outputs = [(at, found[r]) for at, r in enumerate(results)
               if isinstance(r, Node) and r in found]
    if outputs:
        output.args = (tuple(None if isinstance(r, Node) and r in found else r
                             for r in results),)
    for node in found:
        node.meta["val"] = Passed(
            _is_ordered(node.meta["val"])) if node.users else None
    return Objects([i for n, i in found.items() if not n.users], outputs)
