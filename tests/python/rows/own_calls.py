# SPDX-License-Identifier: Apache-2.0
"""Calls of operators that no sample of op_db makes, by row: (arguments, named
arguments). Tensors are made anew at each call, from one seed."""

from __future__ import annotations

from typing import Any, Callable

import torch
import torch._inductor.inductor_prims  # prims.fma

aten = torch.ops.aten

def r(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(shape).to(dtype)


def i(*shape: int, low: int = -9, high: int = 9,
      dtype: torch.dtype = torch.int64) -> torch.Tensor:
    return torch.randint(low, high, shape).to(dtype)


def norm_stats(channels: int) -> tuple[torch.Tensor, ...]:
    return (r(channels), r(channels), r(channels), torch.rand(channels) + 0.1)


def attention(causal: bool) -> Any:
    return (r(2, 3, 5, 8), r(2, 3, 7, 8), r(2, 3, 7, 8), 0.0, causal), {}


def attention_backward(causal: bool, dtype: torch.dtype = torch.float32) -> Any:
    (q, k, v, p, _), _ = attention(causal)
    q, k, v = ((3 * x).to(dtype) for x in (q, k, v))
    out, weights = aten._scaled_dot_product_flash_attention_for_cpu(
        q, k, v, p, causal)
    return (torch.ones_like(out), q, k, v, out, weights, p, causal), {}


def lists() -> list[torch.Tensor]:
    return [r(3, 4), r(7), r(0, 2)]


MASK = torch.tensor([[True, False, True], [False, False, True]])

def bags(mode: int, padding: int = -1, weights: bool = False,
         last: bool = False) -> Any:
    offsets = torch.tensor([0, 3, 3, 5, 7] if last else [0, 3, 3, 5])
    return (r(7, 3), torch.tensor([1, 2, 1, 3, 0, 6, 6]), offsets, False, mode,
            False, torch.rand(7) if weights else None, last, padding), {}


ALL_BAGS = [(mode, padding, mode == 0 and weights, last)
            for mode in (0, 1, 2) for padding in (-1, 6)
            for weights in (False, True) for last in (False, True)]


def bags_backward(mode: int, padding: int, weights: bool, last: bool) -> Any:
    args, _ = bags(mode, padding, weights, last)
    out, of_bag, sizes, best = aten._embedding_bag(*args)
    if of_bag.numel() == 0:
        of_bag = torch.tensor([0, 0, 0, 2, 2, 3, 3])
    return (r(*out.shape), args[1], of_bag, sizes, best, 7, False, mode,
            args[6], padding), {}


def bag_weights_backward(padding: int) -> Any:
    args, _ = bags(0, padding, True)
    out, of_bag, _, _ = aten._embedding_bag(*args)
    return (r(*out.shape), *args[:3], of_bag, 0, padding), {}


def grid(dims: int, *rest: Any) -> Any:
    sizes = (5, 4, 3)[:dims]
    out = (3, 2, 4)[:dims]
    return (r(2, 3, *sizes), 3 * torch.rand(2, *out, dims) - 1.5, *rest), {}


def grids(dims: int) -> list[Any]:
    return [grid(dims, mode, padding, align)
            for mode in range(3 if dims == 2 else 2) for padding in range(3)
            for align in (False, True)]


def grids_backward(dims: int) -> list[Any]:
    found = []
    for (x, points, *rest), _ in grids(dims):
        y = r(*x.shape[:2], *points.shape[1:-1])
        found.append(((y, x, points, *rest, [True, True]), {}))
    x, points, mode, padding, align = found[0][0][1:6]
    found.append(((found[0][0][0], x, points, mode, padding, align,
                   [False, True]), {}))
    return found


def u8(*shape: int) -> torch.Tensor:
    return i(*shape, low=0, high=256, dtype=torch.uint8)


def unsigned() -> list[Any]:
    """253 is among the elements: what -3 wraps around to."""
    x = torch.tensor([0, 1, 5, 250, 253, 254, 255], dtype=torch.uint8)
    return [((x, -3), {}), ((x, -255), {}), ((x, -1.5), {})]


def picks() -> list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
    """Operand, index, source: a tensor without dims is one of one element, and
    an index without elements goes with any operand."""
    zero = torch.zeros((), dtype=torch.int64)
    none = torch.zeros(2, 0, dtype=torch.int64)
    return [(r(), zero, r()), (r(), zero.reshape(1), r(1)),
            (r(5), i(1, low=0, high=5)[0], r()), (r(5), none, r(2, 0))]


# Halves of steps, what the grid lacks, and what no number is.
GRID_NUMBERS = torch.cat([
    torch.arange(-20, 40) * 0.05, torch.randn(20) * 50,
    torch.tensor([float("inf"), -float("inf"), float("nan"), 1e30, -1e30])])


CALLS: dict[str, Callable[[], list[tuple[tuple[Any, ...], dict[str, Any]]]]] = {
    "_embedding_bag.default": lambda: [bags(*form) for form in ALL_BAGS],
    "_embedding_bag_forward_only.default": lambda: [
        bags(*form) for form in ALL_BAGS],
    "_embedding_bag_dense_backward.default": lambda: [
        bags_backward(*form) for form in ALL_BAGS],
    "_embedding_bag_per_sample_weights_backward.default": lambda: [
        bag_weights_backward(-1), bag_weights_backward(6)],
    "_int_mm.default": lambda: [
        ((i(18, 24, low=-128, high=128, dtype=torch.int8),
          i(24, 8, low=-128, high=128, dtype=torch.int8)), {})],
    "_weight_int8pack_mm.default": lambda: [
        ((r(5, 24), i(8, 24, low=-128, high=128, dtype=torch.int8),
          torch.rand(8) + 0.01), {})],
    "fake_quantize_per_tensor_affine_cachemask.default": lambda: [
        ((GRID_NUMBERS, 0.1, 3, 0, 255), {}),
        ((GRID_NUMBERS, 0.05, -4, -128, 127), {}),
        ((GRID_NUMBERS.double(), 0.1, 3, 0, 255), {})],
    "fake_quantize_per_channel_affine_cachemask.default": lambda: [
        ((GRID_NUMBERS.reshape(5, 17).clone(), torch.rand(5) + 0.01,
          i(5, dtype=torch.int32), 0, -128, 127), {}),
        ((r(2, 4, 6), torch.rand(4) + 0.01, r(4), 1, 0, 15), {})],
    "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams.default":
        lambda: [((GRID_NUMBERS, torch.tensor([0.1]),
                   torch.tensor([3], dtype=torch.int32), torch.tensor([on]), 0,
                   255), {}) for on in (0, 1)],
    "grid_sampler_2d.default": lambda: grids(2),
    "grid_sampler_3d.default": lambda: grids(3),
    "grid_sampler_2d_backward.default": lambda: grids_backward(2),
    "grid_sampler_3d_backward.default": lambda: grids_backward(3),
    "adaptive_max_pool2d.default": lambda: [
        ((r(2, 3, 7, 5), [3, 2]), {}), ((r(3, 7, 5), [8, 2]), {}),
        ((torch.full((1, 4, 4), float("nan")), [2, 3]), {}),
        ((torch.full((1, 4, 4), -float("inf")), [2, 3]), {})],
    "true_divide.Tensor": lambda: [
        ((r(3, 4), r(4)), {}), ((i(3, 4), i(4, low=1)), {})],
    "upsample_nearest2d.default": lambda: [
        ((r(2, 3, 5, 4), [n, 7], scale, scale), {})
        for n in (3, 9) for scale in (None, 1.7)],
    "upsample_nearest2d.vec": lambda: [
        ((r(2, 3, 5, 4), [3, 9], None), {}), ((r(2, 3, 5, 4), None, [1.7, 0.6]), {})],
    "upsample_bilinear2d.vec": lambda: [
        ((r(2, 3, 5, 4), *size, factors), {}) for align in (False, True)
        for size, factors in ((([3, 9], align), None), ((None, align), [1.7, 0.6]))],
    "upsample_bicubic2d.vec": lambda: [
        ((r(2, 3, 5, 4), *size, factors), {}) for align in (False, True)
        for size, factors in ((([3, 9], align), None), ((None, align), [1.7, 0.6]))],
    "upsample_bicubic2d.default": lambda: [
        ((r(2, 3, 5, 4), [n, 7], align, scale, scale), {})
        for n in (3, 9) for align in (False, True) for scale in (None, 1.7)]
    + [((u8(2, channels, *size), [n, 7], align, scale, scale), {})
       for size in ((5, 4), (9, 7), (1, 30)) for channels in (1, 3, 6)
       for n in (3, 9) for align in (False, True) for scale in (None, 1.7)],
    "upsample_bicubic2d_backward.default": lambda: [
        ((r(2, 3, n, 7), [n, 7], [2, 3, 5, 4], align, scale, scale), {})
        for n in (3, 9) for align in (False, True) for scale in (None, 1.7)],
    "_foreach_pow.ScalarAndTensor": lambda: [
        ((0.5, lists()), {}), ((2, lists()), {})],
    "_foreach_max.default": lambda: [((lists()[:2],), {})],
    "gather.default": lambda: [((x, 0, at), {}) for x, at, _ in picks()],
    "scatter.src": lambda: [((x, 0, *rest), {}) for x, *rest in picks()],
    "scatter.value": lambda: [((x, 0, at, 2.5), {}) for x, at, _ in picks()],
    "scatter_add.default": lambda: [
        ((x, 0, *rest), {}) for x, *rest in picks()],
    "scatter_reduce.two": lambda: [
        ((x, 0, *rest, "mean"), {"include_self": own})
        for x, *rest in picks() for own in (True, False)],
    "histc.default": lambda: [
        ((x, 4, *bounds), {}) for bounds in ((), (2, 2), (-1, 1))
        for x in (r(9), r(3).double(), r(), r(0), torch.ones(3),
                  r(9).bfloat16())],
    "empty_strided.default": lambda: [
        (([5, 5], [2, 1]), {}), (([3, 2], [0, 1]), {}),
        (([2, 3], [2, 3]), {}), (([0, 3], [0, 0]), {})],
    "new_empty_strided.default": lambda: [((r(2), [3, 2], [0, 1]), {})],
    "nll_loss_forward.default": lambda: [
        ((r(3), torch.tensor(2), weight, reduction, ignored), {})
        for weight in (None, r(3)) for reduction in (0, 1, 2)
        for ignored in ((-100,) if reduction == 1 else (-100, 2))],
    "as_strided.default": lambda: [
        ((r(20)[5:15].view(2, 5), [2, 2], [1, 2], 10), {})],
    "slice_scatter.default": lambda: [((u8(5, 4), u8(2, 4), 0, -3, -1), {})],
    "select_scatter.default": lambda: [((u8(5, 4), u8(5), -1, -2), {})],
    "diagonal_scatter.default": lambda: [((u8(5, 4), u8(3), -2, -2, -1), {})],
    # Negative numbers of an unsigned type.
    "eq.Scalar": lambda: unsigned(),
    "ne.Scalar": lambda: unsigned(),
    "lt.Scalar": lambda: unsigned(),
    "le.Scalar": lambda: unsigned(),
    "gt.Scalar": lambda: unsigned(),
    "ge.Scalar": lambda: unsigned(),
    "remainder.Scalar": lambda: unsigned(),
    "sub.Tensor": lambda: [((u8(9), u8(9)), {"alpha": -3})],
    "add.Scalar": lambda: [((u8(9), -3), {}), ((u8(9), -255, 2), {})],
    "sub.Scalar": lambda: [((u8(9), -3), {})],
    "rsub.Tensor": lambda: [((u8(9), u8(9)), {"alpha": -3})],
    "rsub.Scalar": lambda: [((u8(9), -3), {})],
    "mul.Scalar": lambda: [((u8(9), -3), {}), ((u8(9), -1.5), {})],
    "div.Scalar": lambda: [((u8(9), -3), {})],
    "addcmul.default": lambda: [((u8(9), u8(9), u8(9)), {"value": -2})],
    "masked_fill.Scalar": lambda: [((u8(2, 3), MASK, -3), {})],
    "full.default": lambda: [(([3], -3), {"dtype": torch.uint8})],
    "fill.Scalar": lambda: [((u8(3), -3), {})],
    "constant_pad_nd.default": lambda: [
        ((u8(4, 5), [1, -2, -1, 3], -3), {}), ((r(4, 5), [-1, -4]), {}),
        ((r(2, 3), [2, 0, 0, -1], 0.5), {})],
    "view.dtype": lambda: [
        ((r(3, 4), torch.int32), {}), ((r(3, 4), torch.uint8), {}),
        ((i(3, 8, dtype=torch.uint8), torch.int8), {}),
        ((i(3, 8, dtype=torch.uint8), torch.int64), {}),
        ((r(4, 3).t(), torch.int32), {})],
    "_native_batch_norm_legit.no_stats": lambda: [
        ((r(3, 4, 5), r(4), r(4), True, 0.1, 1e-5), {}),
        ((r(3, 4), None, None, True, 0.1, 1e-5), {})],
    "_native_batch_norm_legit_functional.default": lambda: [
        ((r(3, 4, 5), *norm_stats(4), True, 0.1, 1e-5), {})],
    "_native_batch_norm_legit_no_training.default": lambda: [
        ((r(3, 4, 5), *norm_stats(4), 0.1, 1e-5), {})],
    "_reshape_alias.default": lambda: [((r(6, 4), [3, 8], [8, 1]), {})],
    "_scaled_dot_product_flash_attention_for_cpu.default": lambda: [
        attention(False), attention(True)],
    "_scaled_dot_product_flash_attention_for_cpu_backward.default": lambda: [
        attention_backward(False), attention_backward(True),
        attention_backward(True, torch.bfloat16)],
    "_unsafe_index.Tensor": lambda: [
        ((r(4, 5), [None, i(3, low=0, high=5)]), {})],
    "_unsafe_index_put.default": lambda: [
        ((r(4, 5), [i(3, low=0, high=4)], r(3, 5), True), {})],
    "add.Tensor": lambda: [
        ((r(3, 4), r(4)), {"alpha": 2.5}), ((u8(9), u8(9)), {"alpha": -3}),
        ((i(9), u8(9)), {"alpha": -3}), ((r(9), u8(9)), {"alpha": -3})],
    "gelu.default": lambda: [((r(9),), {"approximate": "tanh"})],
    "gelu_backward.default": lambda: [
        ((r(9), r(9)), {"approximate": "tanh"})],
    "prims.fma.default": lambda: [
        ((r(9), r(9), r(9)), {}),
        ((r(9).double(), r(9).double(), r(9).double()), {})],
    "_foreach_copy.default": lambda: [((lists(), lists()), {})],
    "_foreach_zero.default": lambda: [((lists(),), {})],
    "all.dims": lambda: [((i(3, 4), [0, 1]), {}), ((r(3, 4), [1], True), {})],
    "any.dims": lambda: [((i(3, 4), [0, 1]), {}), ((r(3, 4), [1], True), {})],
    "bitwise_and.Scalar": lambda: [((i(3, 4), 6), {}), ((u8(9), -3), {})],
    "bitwise_or.Scalar": lambda: [((i(3, 4), 6), {}), ((u8(9), -3), {})],
    "bitwise_xor.Scalar": lambda: [((i(3, 4), 6), {}), ((u8(9), -3), {})],
    "bitwise_left_shift.Tensor_Scalar": lambda: [((i(3, 4), 3), {})],
    "bitwise_right_shift.Tensor_Scalar": lambda: [((i(3, 4), 2), {})],
    "chunk.default": lambda: [((r(5, 4), 3), {}), ((r(5, 4), 2, 1), {})],
    "clamp.default": lambda: [
        ((r(9), -0.5, 0.5), {}), ((r(9), None, 0.1), {}), ((i(9), -2, 3), {}),
        ((u8(9), -200, 150), {})],
    "hardtanh.default": lambda: [
        ((r(9),), {}), ((u8(9), 3, 200), {}), ((i(9), -2, 3), {})],
    "clamp_max.default": lambda: [
        ((r(9), 0.5), {}), ((i(9), 2), {}), ((u8(9), -100), {})],
    "copy.default": lambda: [((r(3, 4), r(4)), {}), ((i(3, 4), r(3, 4)), {})],
    "copysign.Scalar": lambda: [((r(9), -1.0), {}), ((i(9), -0.0), {})],
    "div.Scalar_mode": lambda: [
        ((r(9), 0.3), {"rounding_mode": m}) for m in (None, "floor", "trunc")]
    + [((i(9), 4), {"rounding_mode": m}) for m in (None, "floor", "trunc")],
    "fill.Tensor": lambda: [((r(3, 4), torch.tensor(2.5)), {})],
    "floor_divide.Scalar": lambda: [
        ((r(9), 0.3), {}), ((i(9), 4), {}), *unsigned()],
    "fmod.Scalar": lambda: [((r(9), 0.3), {}), ((i(9), 4), {}), *unsigned()],
    "lerp.Tensor": lambda: [((r(3, 4), r(3, 4), torch.rand(4)), {})],
    "lift_fresh_copy.default": lambda: [((r(3, 4),), {})],
    "narrow.default": lambda: [((r(5, 4), 0, 1, 3), {})],
    "native_dropout.default": lambda: [((r(8, 8), 0.5, True), {})],
    "numpy_T.default": lambda: [((r(5, 4),), {})],
    "prims.convert_element_type.default": lambda: [
        ((r(9), torch.float64), {}), ((r(9), torch.int32), {}),
        ((i(9), torch.bfloat16), {}), ((i(9), torch.bool), {})],
    "prims.iota.default": lambda: [((7,), {
        "start": 2, "step": 3, "dtype": torch.int64, "device": "cpu",
        "requires_grad": False})],
    "reshape.default": lambda: [((r(6, 4), [3, 8]), {})],
    "sort.stable": lambda: [
        ((i(3, 9),), {"stable": stable, "dim": dim, "descending": d})
        for stable, dim in ((True, 1), (False, 0)) for d in (False, True)],
    "square.default": lambda: [((r(9),), {}), ((i(9),), {})],
    "where.Scalar": lambda: [((MASK, 1.5, -2.5), {}), ((MASK, 3, 4), {})],
    "where.ScalarOther": lambda: [((MASK, r(2, 3), 0.5), {})],
    "where.ScalarSelf": lambda: [((MASK, 0.5, r(2, 3)), {})],
}


def parts() -> list[torch.Tensor]:
    return [torch.rand(3, 4) + 0.1, torch.rand(7) - 1.05, torch.rand(0, 2)]


def foreach(row: str) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Every operator over lists takes lists, then a number for all or each."""
    name, overload = row.split(".")
    count = 3 if "addc" in name else 1 if overload == "default" else 2
    if overload in ("Scalar", "ScalarList", "Tensor") and count == 2:
        count = 2 if "lerp" in name else 1
    last = {"Scalar": 0.5, "ScalarList": [0.5, 2.0, 3.0],
            "Tensor": torch.tensor(0.5)}
    args: list[Any] = [parts() for _ in range(count)]
    if overload in last:
        args.append(last[overload])
    elif "lerp" in name:
        args.append(parts())
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = [(tuple(args), {})]
    if row in ("_foreach_add.List", "_foreach_sub.List", "_foreach_add.Tensor"):
        calls.append((tuple(args), {"alpha": 2.5}))
    if name == "_foreach_norm":
        calls += [((args[0][:2], order), {}) for order in (1, float("inf"))]
    return calls


def of(row: str) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    torch.manual_seed(7)
    if row in CALLS:
        return CALLS[row]()
    return foreach(row) if row.startswith("_foreach_") else []


def saved_anew(row: str, args: tuple[Any, ...], kwargs: dict[str, Any]
               ) -> tuple[Any, ...]:
    """The arguments, with what the forward saved computed from the others.
    ATen's gradient of attention takes the saved result's rounding to a narrow
    type for granted; ours is that of the function."""
    if "attention_for_cpu_backward" not in row:
        return args
    grad, q, k, v, _, _, p, causal, *rest = args
    out, logsumexp = aten._scaled_dot_product_flash_attention_for_cpu(
        q, k, v, p, causal, **kwargs)
    return (grad, q, k, v, out, logsumexp, p, causal, *rest)


def is_certain(row: str, args: tuple[Any, ...]) -> bool:
    """ATen's own kernels differ at the corners of hardswish's gradient, by
    where in the tensor an element stands."""
    return row != "hardswish_backward.default" or not bool(
        (args[1].abs() == 3).any())
