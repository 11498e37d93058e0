# SPDX-License-Identifier: Apache-2.0
"""The operators of torch that every device has: memory, views, copies.

All others run on the CPU (fallback.py), or are opgraft operators with a kernel
for the device (_load/module.py).
"""

from __future__ import annotations

from typing import Any

import torch

from . import attention, fallback, memory, rnn, streams

# They change sizes and strides alone; the CPU's kernel reads no data.
_VIEWS = """
    as_strided view _reshape_alias unfold view_as_real view_as_complex set_
    set_.source_Tensor set_.source_Storage set_.source_Storage_storage_offset
""".split()

_libraries: list[Any] = []  # torch drops what nobody holds


def register() -> None:
    aten = torch.library.Library("aten", "IMPL", "PrivateUse1")
    others = torch.library.Library("_", "IMPL", "PrivateUse1")
    _libraries.extend([aten, others])
    for name in _VIEWS:
        aten.impl(name, _view(name))
    for name, function in _KERNELS.items():
        aten.impl(name, function)
    others.fallback(fallback.run)
    for key in ("SparsePrivateUse1", "SparseCsrPrivateUse1"):
        sparse = torch.library.Library("_", "IMPL", key)
        _libraries.append(sparse)
        sparse.fallback(fallback.refuse_sparse)
    # Else torch resolves the source first, which copies it, which resolves it.
    for key in ("Conjugate", "Negative", "ZeroTensor"):
        lazy = torch.library.Library("aten", "IMPL", key)
        _libraries.append(lazy)
        lazy.impl("_copy_from", torch.library.fallthrough_kernel)


def _view(name: str) -> Any:
    packet, _, overload = name.partition(".")
    op = getattr(getattr(torch.ops.aten, packet), overload or "default")
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)

    def call(*args: Any, **kwargs: Any) -> Any:
        return op.redispatch(keys, *args, **kwargs)

    return call


# --- Kernels -----------------------------------------------------------------


def _strided_only(layout: Any, pin_memory: Any) -> None:
    if layout not in (None, torch.strided):
        raise NotImplementedError(
            f"a tensor of a device has layout {layout}, expected torch.strided")
    if pin_memory:
        raise RuntimeError("only memory of the CPU can be pinned")


def _strides(size: Any, memory_format: Any) -> tuple[int, ...]:
    if memory_format in (None, torch.contiguous_format,
                         torch.preserve_format):
        return memory.row_major(size)
    return torch.empty(size, device="meta",
                       memory_format=memory_format).stride()


def _empty_memory_format(
    size: Any, *, dtype: Any = None, layout: Any = None, device: Any = None,
    pin_memory: Any = None, memory_format: Any = None,
) -> torch.Tensor:
    _strided_only(layout, pin_memory)
    return memory.empty_strided(size, _strides(size, memory_format), dtype,
                                device)


def _empty_strided(
    size: Any, stride: Any, *, dtype: Any = None, layout: Any = None,
    device: Any = None, pin_memory: Any = None,
) -> torch.Tensor:
    _strided_only(layout, pin_memory)
    return memory.empty_strided(size, stride, dtype, device)


def _copy_from(
    source: torch.Tensor, to: torch.Tensor, non_blocking: bool = False
) -> torch.Tensor:
    memory.copy(source.expand(to.shape), to)
    return to


def _copy_from_and_resize(
    source: torch.Tensor, to: torch.Tensor
) -> torch.Tensor:
    if source.shape != to.shape:
        to.resize_(source.shape)
    return _copy_from(source, to)


def _fill_(tensor: torch.Tensor, value: Any) -> torch.Tensor:
    memory.copy(torch.full(tensor.shape, value, dtype=tensor.dtype,
                           device="cpu"), tensor)
    return tensor


def _zero_(tensor: torch.Tensor) -> torch.Tensor:
    return _fill_(tensor, 0)


_ALONE = 2  # references to a storage: the tensor's, and its Python object's


def _alone_only(tensor: torch.Tensor, held: int, needed: int) -> None:
    """A storage of a device does not grow in place: another one takes its
    place, of which other tensors would not know."""
    storage = tensor.untyped_storage()
    if torch._C._storage_Use_Count(storage._cdata) > _ALONE:
        raise RuntimeError(
            f"resize_ needs {needed} elements, and the storage of the tensor "
            f"(shape {tuple(tensor.shape)}) holds {held} and is shared with "
            "other tensors, such as views; resize a tensor that has its "
            "storage to itself")


def _resize_(
    tensor: torch.Tensor, size: Any, *, memory_format: Any = None
) -> torch.Tensor:
    if memory_format is torch.preserve_format:
        raise RuntimeError("resize_: the memory format is preserve_format, "
                           "expected one that gives strides")
    strides = _strides(size, memory_format)
    needed = 1 + sum((n - 1) * step for n, step in zip(size, strides,
                                                       strict=True))
    if 0 in size:
        needed = 0
    held = tensor.untyped_storage().nbytes() // tensor.element_size()
    offset = tensor.storage_offset()
    if offset + needed <= held:
        return tensor.set_(tensor.untyped_storage(), offset, size, strides)
    _alone_only(tensor, held, offset + needed)
    made = memory.empty_strided((offset + needed,), (1,), tensor.dtype,
                                tensor.device)
    count = min(held, offset + needed)
    if count > 0:
        old = tensor.as_strided((count,), (1,), 0)
        memory.copy(old, made.as_strided((count,), (1,), 0))
    return tensor.set_(made.untyped_storage(), offset, size, strides)


def _local_scalar_dense(tensor: torch.Tensor) -> Any:
    return memory.to_host(tensor).item()


def _convolution(*args: Any) -> torch.Tensor:
    return fallback.run(torch.ops.aten.convolution.default, *args)


def _convolution_backward(
    grad: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, stride: Any,
    padding: Any, dilation: Any, transposed: bool, output_padding: Any,
    groups: int, mask: Any,
) -> Any:
    bias_sizes = [weight.shape[1] * groups if transposed else weight.shape[0]]
    return fallback.run(
        torch.ops.aten.convolution_backward.default, grad, x, weight,
        bias_sizes, stride, padding, dilation, transposed, output_padding,
        groups, mask)


def _on_cpu(name: str) -> Any:
    """What torch composes of other operators for devices that it does not
    know: the CPU's kernel, whose results are the CPU's."""
    op = getattr(torch.ops.aten, name).default

    def call(*args: Any) -> Any:
        return fallback.run(op, *args)

    return call


def _has_compatible_shallow_copy_type(
    tensor: torch.Tensor, other: torch.Tensor
) -> bool:
    """Whether `tensor.data = other` is right: between the CPU and the device
    too. torch's own list of devices lacks this one."""
    return tensor.layout == other.layout == torch.strided


_KERNELS = {
    "native_layer_norm": _on_cpu("native_layer_norm"),
    "mse_loss": _on_cpu("mse_loss"),
    "smooth_l1_loss": _on_cpu("smooth_l1_loss"),
    **rnn.kernels(),
    **attention.kernels(),
    "empty.memory_format": _empty_memory_format,
    "empty_strided": _empty_strided,
    "_copy_from": _copy_from,
    "_copy_from_and_resize": _copy_from_and_resize,
    "fill_.Scalar": _fill_,
    "zero_": _zero_,
    "resize_": _resize_,
    "_has_compatible_shallow_copy_type": _has_compatible_shallow_copy_type,
    "_local_scalar_dense": _local_scalar_dense,
    "record_stream": streams.record_stream,
    "convolution_overrideable": _convolution,
    "convolution_backward_overrideable": _convolution_backward,
}
