# SPDX-License-Identifier: Apache-2.0
"""What rewrites of a graph write with."""

from __future__ import annotations

from typing import Any

from torch.fx import GraphModule, Node


class Writer:
    """Calls in a graph, with the sizes and the source line of a node."""

    def __init__(self, gm: GraphModule, of: Node) -> None:
        self.graph = gm.graph
        self.meta = {k: v for k, v in of.meta.items()
                     if k in ("stack_trace", "nn_module_stack")}

    def __call__(self, target: Any, *args: Any, **kwargs: Any) -> Node:
        node = self.graph.call_function(target, args, kwargs)
        values = [a.meta["val"] if isinstance(a, Node) else a for a in args]
        node.meta = {**self.meta, "val": target(*values, **kwargs)}
        return node
