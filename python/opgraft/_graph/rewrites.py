# SPDX-License-Identifier: Apache-2.0
"""What is changed in AOTAutograd's graph before it is compiled, in whatever
way it then runs: by the engine, in segments, or as it came.
"""

from __future__ import annotations

from typing import Any, Iterator

import torch
from torch.fx import GraphModule, Node


def rewrite(gm: GraphModule) -> None:
    tokens_drop(gm)
    overwritten_keep(gm)


# --- Effect tokens ------------------------------------------------------------


def tokens_drop(gm: GraphModule) -> None:
    """A token orders effects; nodes run in order here, and at run time each
    token is None. A placeholder that is only a token becomes an unused one."""
    for node in gm.graph.nodes:
        if node.target is not torch.ops.higher_order.with_effects:
            continue
        token = node.args[0]
        node.update_arg(0, None)
        if isinstance(token, Node) and token.op == "placeholder":
            token.meta["val"] = None


# --- Inputs that are written --------------------------------------------------


def overwritten_keep(gm: GraphModule) -> None:
    """Copies what is read after the write that replaces it.

    The graph is functional but for the closing copy_ of mutated inputs: an
    input stands for its value at entry. The partitioner saves such an input
    for backward as it is, behind the copy_: backward would compute with the
    new value, and the gradient would be wrong.
    """
    nodes = list(gm.graph.nodes)
    order = {n: i for i, n in enumerate(nodes)}
    writes = [n for n in nodes if n.target is torch.ops.aten.copy_.default]
    if not writes:
        return
    sharing: dict[int, list[Node]] = {}
    for node in nodes:
        for storage in _storages(node):
            sharing.setdefault(storage, []).append(node)
    for write in writes:
        for storage in _storages(write.args[0]):
            for node in sharing[storage]:
                if order[node] < order[write]:
                    _keep(gm, node, write, order)


def _keep(gm: GraphModule, node: Node, write: Node, order: dict[Node, int]
          ) -> None:
    late = {n for n in node.users
            if order[n] > order[write] and not _writes_to(n, node)}
    if not late:
        return
    with gm.graph.inserting_before(write):
        copy = gm.graph.call_function(torch.ops.aten.clone.default, (node,))
    copy.meta = {**node.meta, "val": node.meta["val"].clone()}
    node.replace_all_uses_with(copy, late.__contains__)


def _writes_to(node: Node, target: Node) -> bool:
    return (node.target is torch.ops.aten.copy_.default
            and node.args[0] is target)


def _storages(node: Any) -> Iterator[int]:
    """Of the node's tensor, by its fake: none where it has none."""
    value = node.meta.get("val")
    if (isinstance(value, torch.Tensor)
            and value.layout is torch.strided):
        yield value.untyped_storage()._cdata
