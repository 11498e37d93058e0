# SPDX-License-Identifier: Apache-2.0
"""Results in eager mode's layout, where torch's decompositions and shape
functions give another one.

A layout shows in `stride()` and in all that reads memory in its order
(as_strided). tests/python/graph/test_layouts.py compares every operator.
"""

from __future__ import annotations

from typing import Any, Callable

import torch

Function = Callable[..., Any]
aten = torch.ops.aten


def _order(x: Any) -> list[int]:
    """Its dims, from the one whose places lie furthest apart."""
    from torch._prims_common import (
        compute_elementwise_output_logical_to_physical_perm as order,
    )

    found = order(x)
    return list(found[0] if isinstance(found, tuple) else found)


def _pointwise(*args: Any, **kwargs: Any) -> list[int]:
    """TensorIterator's, which torch knows for `add`."""
    tensors = [x for x in args if isinstance(x, torch.Tensor)]
    return _order(aten.add(tensors[0], tensors[-1]))


def _outer(x: Any, row: Any, column: Any, **kwargs: Any) -> list[int]:
    return _order(aten.addcmul(x, row.unsqueeze(1), column))


def _row_major(x: Any, *args: Any, **kwargs: Any) -> list[int]:
    return list(range(x.dim()))


def _image(x: Any, *args: Any, **kwargs: Any) -> list[int]:
    """Row-major or channels_last, whichever the argument is nearer to."""
    from torch._prims_common import suggest_memory_format

    dims = _row_major(x)
    is_last = suggest_memory_format(x) is not torch.contiguous_format
    return [0, *dims[2:], 1] if is_last else dims


def _loss_of_each(x: Any, target: Any, weight: Any = None, reduction: int = 1
                  ) -> list[int]:
    return _order(aten.empty_like(x)) if reduction == 0 else []


def _losses(x: Any, target: Any, weight: Any = None, reduction: int = 1,
            *args: Any) -> list[int]:
    return _row_major(target) if reduction == 0 else []


# The order of dims of an operator's first result in memory.
_ORDERS: dict[str, Callable[..., list[int]]] = {
    "copysign.Tensor": _pointwise,
    "floor_divide.default": _pointwise,
    "div.Tensor_mode": _pointwise,
    "heaviside.default": _pointwise,
    "lcm.default": _pointwise,
    "logaddexp.default": _pointwise,
    "logaddexp2.default": _pointwise,
    "logical_and.default": _pointwise,
    "logical_or.default": _pointwise,
    "logical_xor.default": _pointwise,
    "logit_backward.default": _pointwise,
    "special_xlog1py.default": _pointwise,
    "xlogy.Tensor": _pointwise,
    "native_dropout_backward.default": _pointwise,
    "pow.Scalar": lambda base, x: _row_major(x),
    "im2col.default": lambda x, *args: _row_major(x)[:-1],
    "addr.default": _outer,
    "isin.Tensor_Tensor": _row_major,
    "log_sigmoid_forward.default": _row_major,
    "rrelu_with_noise_functional.default": _row_major,
    "rrelu_with_noise.default": _row_major,
    "channel_shuffle.default": _image,
    "native_channel_shuffle.default": _image,
    "max_unpool2d.default": _image,
    "nll_loss2d_forward.default": _losses,
    "binary_cross_entropy.default": _loss_of_each,
    "_native_batch_norm_legit_functional.default": _image,
    "_native_batch_norm_legit_no_training.default": _image,
    "_native_batch_norm_legit.no_stats": _image,
}


def _roll(x: Any, shifts: Any, dims: Any = ()) -> Any:
    """As ATen does: the two parts exchanged, one dim after another."""
    if len(dims) == 0 and len(shifts) == 1:
        return _roll(x.reshape(-1), shifts, [0]).view(x.shape)
    if len(dims) != len(shifts) or x.dim() == 0:
        return NotImplemented
    for dim, shift in zip(dims, shifts):
        size = x.shape[dim]
        begin = (size - shift) % size if size != 0 else 0
        x = aten.cat([x.narrow(dim, begin, size - begin),
                      x.narrow(dim, 0, begin)], dim)
    return x


def _strided_scatter(x: Any, *args: Any) -> Any:
    """ATen clones what is expanded; torch's shape function keeps its strides.
    """
    from torch.fx.experimental.symbolic_shapes import guard_or_false as holds

    if not any(holds(s == 0) for s in x.stride()):
        return NotImplemented
    return aten.as_strided_scatter(aten.clone(x), *args)


def _wanted(order: Callable[..., list[int]], args: Any, kwargs: Any
            ) -> list[int]:
    from torch.fx.experimental.proxy_tensor import (
        disable_proxy_modes_tracing,
    )

    with disable_proxy_modes_tracing():
        return order(*args, **kwargs)


def _moved(y: Any, order: list[int]) -> Any:
    """With the dims in this order; those of one place lie anywhere."""
    from torch.fx.experimental.symbolic_shapes import guard_or_false as holds

    found, wanted = ([d for d in dims if not holds(y.shape[d] == 1)]
                     for dims in (_order(y), order))
    if found == wanted:
        return y
    back = sorted(range(len(order)), key=order.__getitem__)
    return y.permute(order).clone(
        memory_format=torch.contiguous_format).permute(back)


def _first_of(function: Function, other: Function) -> Function:
    def run(*args: Any, **kwargs: Any) -> Any:
        y = function(*args, **kwargs)
        return other(*args, **kwargs) if y is NotImplemented else y

    return run


def _laid_out(op: Any, function: Function | None, order: Callable[..., list[int]]) -> Function:
    """`function`, or the operator whole, with eager's layout."""
    is_inside = False

    def run(*args: Any, **kwargs: Any) -> Any:
        nonlocal is_inside
        if is_inside:
            return NotImplemented
        if not any(isinstance(x, torch.Tensor) for x in args):  # div(7, 2)
            return NotImplemented if function is None else function(
                *args, **kwargs)
        dims = _wanted(order, args, kwargs)
        y: Any = NotImplemented
        if function is not None:
            y = function(*args, **kwargs)
        if y is NotImplemented:
            is_inside = True
            try:
                y = op(*args, **kwargs)
            finally:
                is_inside = False
        return ((_moved(y[0], dims), *y[1:]) if isinstance(y, (tuple, list))
                else _moved(y, dims))

    return run


def lay_out(table: dict[Any, Function]) -> dict[Any, Function]:
    """The table of decompositions with results as in eager mode."""
    found = dict(table)
    found[aten.roll.default] = _first_of(_roll, table[aten.roll.default])
    found[aten.as_strided_scatter.default] = _strided_scatter
    for name, order in _ORDERS.items():
        packet, overload = name.split(".")
        op = getattr(getattr(aten, packet), overload)
        found[op] = _laid_out(op, found.get(op), order)
    return found
