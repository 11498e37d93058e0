# SPDX-License-Identifier: Apache-2.0
"""Products of weights that come quantised: what torch.export's quantisation
left as int8, behind a quantized_decomposed.dequantize, becomes ATen's product of
int8, so no f32 weight is made; weights in ATen's forms of 4 bits become
linear_codes of the operator library, where they are a frozen graph's."""

from __future__ import annotations

from typing import Any, Callable, Mapping

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


# --- 4 bits -------------------------------------------------------------------

# [n, k] of bytes, [n, groups] of scales and zeros, elements of a group, bias.
_Codes = tuple[torch.Tensor, torch.Tensor, torch.Tensor | None, int,
               torch.Tensor | None]


def codes_take(gm: GraphModule, own: Mapping[str, torch.Tensor]) -> None:
    """`own`: the graph's tensors, by the names of its attributes."""
    for node in list(gm.graph.nodes):
        read = _READ.get(node.target)
        if read is None or node.kwargs:
            continue
        given = [own.get(a.target) if isinstance(a, Node) and a.op == "get_attr"
                 else None if isinstance(a, Node) else a for a in node.args[1:]]
        found = None if any(g is None for g in given) else read(*given)
        if found is not None:
            _codes_put(gm, node, found)


def _codes_put(gm: GraphModule, node: Node, found: _Codes) -> None:
    from .. import ops

    codes, scales, zeros, group, bias = found
    x: Any = node.args[0]
    how = {"bits": 4, "group_size": group}
    packed = ops.linear_codes_prepack(codes, scales, zeros, **how)  # type: ignore[attr-defined]
    val = x.meta["val"]
    bias = None if bias is None else bias.to(val.dtype)
    with gm.graph.inserting_before(node):
        w = Writer(gm, node)
        kept = [_own(gm, val.fake_mode, f"{node.name}_{name}", t)
                for name, t in (("packed", packed), ("bias", bias))
                if t is not None]
        own = getattr(torch.ops, ops._modules["linear"].namespace)
        new = w(own.linear_codes.default, x, *kept,
                out_features=len(codes), **how)
    node.replace_all_uses_with(new)
    given = node.args[1:]
    gm.graph.erase_node(node)
    for a in given:
        if isinstance(a, Node) and not a.users:
            gm.graph.erase_node(a)


def _own(gm: GraphModule, mode: Any, name: str, tensor: torch.Tensor) -> Node:
    setattr(gm, name, tensor)
    node = gm.graph.create_node("get_attr", name)
    node.meta["val"] = mode.from_tensor(tensor, static_shapes=True)
    return node


def _int4pack(w: torch.Tensor, group: int, scales_zeros: torch.Tensor
              ) -> _Codes | None:
    """(code - 8) s + z."""
    scales, shift = scales_zeros.float().unbind(2)
    scales, shift = scales.t(), shift.t()
    codes = _int4_unpack(w)
    if codes is None or bool(((scales == 0) & (shift != 0)).any()):
        return None
    zeros = 8 - torch.where(scales == 0, 0, shift / scales)
    k = codes.shape[1]
    return codes, _spread(scales, group, k), _spread(zeros, group, k), min(
        group, 128), None


def _spread(t: torch.Tensor, group: int, k: int) -> torch.Tensor:
    """[n, groups] as groups of 128 at most."""
    most = min(group, 128)
    return t.repeat_interleave(-(-group // most), 1)[:, :-(-k // most)].contiguous()


def _int4_unpack(w: torch.Tensor) -> torch.Tensor | None:
    """What `_convert_weight_to_int4pack_for_cpu` made this of, whose blocks of
    rows depend on the instruction set."""
    n, k, flat = w.shape[0], w.shape[1] * 2, w.reshape(-1)
    for block, halves in ((64, True), (32, True), (64, False)):
        parts = []
        for begin in range(0, n, block):
            rows = min(block, n - begin)
            part = flat[begin * k // 2:(begin + rows) * k // 2].view(k, rows // 2)
            low, high = part & 15, part >> 4
            parts.append(torch.cat([low, high], 1) if halves and rows == block
                         else torch.stack([low, high], 2).view(k, rows))
        codes = torch.cat(parts, 1).t().contiguous()
        if torch.equal(torch.ops.aten._convert_weight_to_int4pack_for_cpu(
                codes.int(), 1), w):
            return codes
    return None


def _dyn_quant(packed: torch.Tensor, group: int, k: int, n: int
               ) -> _Codes | None:
    """(code - 8) s: ATen's form where there is no KleidiAI, a byte a float;
    rows of x have 16 bits here, not 8."""
    groups = -(-k // group)
    bytes_, rest = n * k // 2, packed.numel() - n * k // 2 - n * groups
    if (packed.dtype is not torch.float32 or rest not in (0, n) or k % 2
            or (group not in (32, 64, k) and group % 128) or k % group):
        return None
    pairs = packed[:bytes_].to(torch.uint8).view(n, k // 2)
    codes = torch.stack([pairs & 15, pairs >> 4], 2).view(n, k)
    scales = packed[bytes_:bytes_ + n * groups].view(n, groups)
    bias = packed[bytes_ + n * groups:].clone() if rest else None
    most = group if group in (32, 64) else max(group, 128)
    return codes, _spread(scales, most, k), None, min(most, 128), bias


_READ: dict[Any, Callable[..., _Codes | None]] = {
    torch.ops.aten._weight_int4pack_mm_for_cpu.default: _int4pack,
    torch.ops.aten._dyn_quant_matmul_4bit.default: _dyn_quant,
}
