# SPDX-License-Identifier: Apache-2.0
"""What is changed in AOTAutograd's graph before it is compiled, in whatever
way it then runs: by the engine, in segments, or as it came.
"""

from __future__ import annotations

import operator
from typing import Any, Iterable, Iterator, Mapping

import torch
from torch.fx import GraphModule, Node

from .writer import Writer


def rewrite(gm: GraphModule, kind: str, fuses: bool) -> None:
    """`fuses`: nodes will be fused into row programs."""
    tokens_drop(gm)
    if kind != "forward":  # which `partition` has done
        overwritten_keep(gm)
    collectives_split(gm)
    if fuses:
        losses_split(gm)
    if fuses and kind.startswith("inference"):
        quantised_take(gm)


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


# --- Collectives --------------------------------------------------------------


def collectives_split(gm: GraphModule) -> None:
    """In collectives.py, which only a graph that has some needs."""
    if any(getattr(n.target, "namespace", "") == "_c10d_functional"
           for n in gm.graph.nodes):
        from . import collectives

        collectives.split(gm)


# --- Quantised weights --------------------------------------------------------


# Products of ATen's own forms of 4 bits.
_OF_CODES = (torch.ops.aten._weight_int4pack_mm_for_cpu.default,
             torch.ops.aten._dyn_quant_matmul_4bit.default)


def quantised_take(gm: GraphModule, own: Mapping[str, torch.Tensor] | None = None
                   ) -> None:
    """In quantised.py, which only a graph that has some needs. `own`: the
    tensors of a frozen graph."""
    if any(n.target in _OF_CODES for n in gm.graph.nodes) and own is not None:
        from . import quantised

        quantised.codes_take(gm, own)
    if any(getattr(n.target, "namespace", "") == "quantized_decomposed"
           for n in gm.graph.nodes):
        from . import quantised

        quantised.products_take(gm)


# --- Inputs that are written --------------------------------------------------


# Of a tensor that a Function keeps without save_for_backward.
NO_CHECK = "saved_tensor_with_no_vc_check"


def partition(joint: GraphModule, inputs: Any, **options: Any
              ) -> tuple[GraphModule, GraphModule]:
    """AOTAutograd's partition_fn: forward and backward. What forward keeps of
    an input that it writes depends on what backward does with it."""
    from functorch.compile import min_cut_rematerialization_partition

    forward, backward = min_cut_rematerialization_partition(
        joint, inputs, **options)
    count = options["num_fwd_outputs"]
    overwritten_keep(forward, _written_later(forward, backward, count))
    forward.meta["num_fwd_outputs"] = count
    return forward, backward


def _written_later(forward: GraphModule, backward: GraphModule, count: int
                   ) -> set[int]:
    """Which results of forward, from `count` on, are inputs that backward
    writes: no copy will do. One that it reads besides is saved twice."""
    saved = {n.name: n for n in backward.graph.find_nodes(op="placeholder")}
    changed = {s for w in _writes(forward) for s in _storages(w.args[0])}
    output = forward.graph.output_node()
    results = list(output.args[0])
    descriptions = output.meta.get("desc")
    written: set[int] = set()
    for at in reversed(range(count, len(results))):
        node = results[at]
        place = saved.get(node.name) if isinstance(node, Node) else None
        if place is None or not changed.intersection(_storages(node)):
            continue
        readers = {n for n in place.users if not _writes_to(n, place)}
        if len(readers) == len(place.users):
            continue
        written = {at, *(w + bool(readers) for w in written)}
        if readers:
            with backward.graph.inserting_before(place.next):
                read = backward.graph.placeholder(f"{place.name}_read")
            read.meta = dict(place.meta)
            place.replace_all_uses_with(read, readers.__contains__)
            results.insert(at + 1, node)
            if descriptions is not None:
                descriptions.insert(at + 1, descriptions[at])
    output.args = (tuple(results),)
    return written


def overwritten_keep(gm: GraphModule, stay: Iterable[int] = ()) -> None:
    """Copies what is read after the write that replaces it. The results at
    `stay` keep what was written.

    The graph is functional but for the closing copy_ of mutated inputs: an
    input stands for its value at entry. The partitioner saves such an input
    for backward as it is, behind the copy_: backward would compute with the
    new value, and the gradient would be wrong.
    """
    nodes = list(gm.graph.nodes)
    order = {n: i for i, n in enumerate(nodes)}
    writes = _writes(gm)
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
                    _keep(gm, node, write, order, stay)


def _keep(gm: GraphModule, node: Node, write: Node, order: dict[Node, int],
          stay: Iterable[int]) -> None:
    output = gm.graph.output_node()
    if node is write.args[0]:
        _results_replace(output, node, write, stay)
    late = {n for n in node.users
            if order[n] > order[write] and not _writes_to(n, node)}
    if not late:
        return
    with gm.graph.inserting_before(write):
        copy = gm.graph.call_function(torch.ops.aten.clone.default, (node,))
    copy.meta = {**node.meta, "val": node.meta["val"].clone()}
    node.replace_all_uses_with(copy, late.__contains__)


def _results_replace(output: Node, node: Node, write: Node,
                     places: Iterable[int]) -> None:
    results = list(output.args[0])
    for i in places:
        if results[i] is node:
            results[i] = write
    output.args = (tuple(results),)
    if NO_CHECK in node.meta:
        write.meta[NO_CHECK] = node.meta[NO_CHECK]


def _writes(gm: GraphModule) -> list[Node]:
    return gm.graph.find_nodes(op="call_function",
                               target=torch.ops.aten.copy_.default)


def _writes_to(node: Node, target: Node) -> bool:
    return (node.target is torch.ops.aten.copy_.default
            and node.args[0] is target)


def _storages(node: Any) -> Iterator[int]:
    """Of the node's tensor, by its fake: none where it has none."""
    value = node.meta.get("val")
    if (isinstance(value, torch.Tensor)
            and value.layout is torch.strided):
        yield value.untyped_storage()._cdata


# --- Losses -------------------------------------------------------------------


def losses_split(gm: GraphModule) -> None:
    """A loss of log_softmax, which nobody else reads, is computed of one number
    a row: log_softmax at the target is x[target] - top - log(sum(e^(x - top))),
    so that no row of it is stored."""
    aten = torch.ops.aten
    found = [n for n in gm.graph.nodes
             if n.target is aten.nll_loss_forward.default and _is_split(n)]
    for loss in found:
        with gm.graph.inserting_before(loss):
            results = _loss_of_rows(Writer(gm, loss), *loss.args)
        for user in list(loss.users):
            user.replace_all_uses_with(results[user.args[1]])
            gm.graph.erase_node(user)
        softmax = loss.args[0]
        gm.graph.erase_node(loss)
        gm.graph.erase_node(softmax)


NONE, MEAN = 0, 1  # ATen's numbers of a loss's reduction


def _is_split(loss: Node) -> bool:
    from torch.fx.experimental.symbolic_shapes import statically_known_true

    softmax = loss.args[0]
    if (not isinstance(softmax, Node) or len(softmax.users) != 1
            or softmax.target is not torch.ops.aten._log_softmax.default):
        return False
    value = softmax.meta["val"]
    return (value.ndim == 2 and value.dtype is torch.float32
            and statically_known_true(value.shape[1] > 0)
            and softmax.args[1] in (1, -1)
            and softmax.args[0].meta["val"].dtype is torch.float32
            and loss.args[1].meta["val"].dtype is torch.int64
            and all(u.target is operator.getitem for u in loss.users))


def _loss_of_rows(w: Writer, softmax: Node, target: Node, weight: Node | None,
                  reduction: int, ignored: int) -> tuple[Node, Node]:
    """As nll_loss_forward gives them: the loss and the weights' sum."""
    aten = torch.ops.aten
    x = softmax.args[0]
    top = w(aten.amax.default, x, [1], True)
    powers = w(aten.exp.default, w(aten.sub.Tensor, x, top))
    log = w(aten.log.default,
            w(aten.sum.dim_IntList, powers, [1], True))
    column = w(aten.unsqueeze.default, target, 1)
    counts = w(aten.ne.Scalar, column, ignored)
    place = w(aten.where.ScalarOther, counts, column, 0)
    own = w(aten.sub.Tensor, w(aten.gather.default, x, 1, place), top)
    loss = w(aten.sub.Tensor, log, own)
    share = w(aten._to_copy.default, counts, dtype=torch.float32)
    if weight is not None:
        picked = w(aten.gather.default, weight, 0,
                   w(aten.squeeze.dim, place, 1))
        share = w(aten.mul.Tensor, share,
                  w(aten.unsqueeze.default, picked, 1))
        loss = w(aten.mul.Tensor, loss, share)
    loss = w(aten.where.ScalarOther, counts, loss, 0.0)
    if reduction == NONE:
        return w(aten.squeeze.dim, loss, 1), w(
            aten.new_full.default, loss, [], 0.0)
    loss, total = w(aten.sum.default, loss), w(aten.sum.default, share)
    return w(aten.div.Tensor, loss, total) if reduction == MEAN else loss, total
