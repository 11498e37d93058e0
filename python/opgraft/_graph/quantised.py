# SPDX-License-Identifier: Apache-2.0
"""Products of weights that torch.export's quantisation left as int8, behind a
quantized_decomposed.dequantize: ATen's product of int8, so no f32 weight is
made."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import GraphModule, Node

from .writer import Writer


def products_take(gm: GraphModule) -> None:
    aten = torch.ops.aten
    for found in list(gm.graph.nodes):
        if not _is_weight(found):
            continue
        for turned in [u for u in found.users if _is_turned(u)]:
            for product in list(turned.users):
                if (product.target not in (aten.mm.default, aten.addmm.default)
                        or product.args[-1] is not turned or product.kwargs):
                    continue
                with gm.graph.inserting_before(product):
                    new = _product(Writer(gm, product), found, *product.args)
                product.replace_all_uses_with(new)
                gm.graph.erase_node(product)
            if not turned.users:
                gm.graph.erase_node(turned)
        if not found.users:
            gm.graph.erase_node(found)


def _is_weight(node: Node) -> bool:
    """int8 that stays, with a scale for each row or one for all."""
    if getattr(node.target, "namespace", "") != "quantized_decomposed":
        return False
    of = node.args[0]
    is_known = (
        node.target._opname == "dequantize_per_channel" and node.args[3] == 0
        or node.target._opname == "dequantize_per_tensor"
        and node.target._overloadname == "default")
    return (is_known and isinstance(of, Node)
            and of.op in ("placeholder", "get_attr")
            and of.meta["val"].ndim == 2
            and of.meta["val"].dtype is torch.int8
            and node.meta["val"].dtype in (torch.float32, torch.bfloat16,
                                           torch.float16))


def _is_turned(node: Node) -> bool:
    aten, rest = torch.ops.aten, [*node.args[1:]]
    return (node.target is aten.t.default
            or (node.target is aten.permute.default and rest == [[1, 0]])
            or (node.target is aten.transpose.int and {*rest} in ({0, 1}, {-1, -2})))


def _product(w: Writer, weight: Node, *args: Any) -> Node:
    """(bias, x) or x by the weight: s (x q) - (sum x) (s z) + bias."""
    aten = torch.ops.aten
    x = args[-2]
    codes, scales, zeros = weight.args[:3]
    dtype = x.meta["val"].dtype
    if not isinstance(scales, Node):
        scales = w(aten.full.default, [codes.meta["val"].shape[0]], scales,
                   dtype=dtype, device=codes.meta["val"].device)
    elif scales.meta["val"].dtype is not dtype:
        scales = w(aten._to_copy.default, scales, dtype=dtype)
    y = w(aten._weight_int8pack_mm.default, x, codes, scales)
    if isinstance(zeros, Node) or zeros not in (0, None):
        if isinstance(zeros, Node):
            zeros = w(aten._to_copy.default, zeros, dtype=dtype)
        more = w(aten.mul.Tensor, w(aten.sum.dim_IntList, x, [1], True),
                 w(aten.mul.Tensor, scales, zeros))
        y = w(aten.sub.Tensor, y, more)
    return w(aten.add.Tensor, y, args[0]) if len(args) == 3 else y
