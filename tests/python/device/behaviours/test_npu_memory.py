# SPDX-License-Identifier: Apache-2.0
"""Behaviours of the device's memory: allocation, release, views, no leaks."""

from __future__ import annotations

import gc
from typing import Any, Callable

import pytest
import torch
from on_npu import MIB, same


@pytest.fixture
def live(npu: Any) -> Callable[[], tuple[int, int]]:
    """live() -> count and bytes of the allocations that tensors hold."""
    gc.collect()

    def now() -> tuple[int, int]:
        found = npu.stats()["memory"]
        return found["live"], found["live_bytes"]

    return now


@pytest.mark.behaviour("memory", "allocated bytes follow the tensors' sizes")
@pytest.mark.parametrize("shape", [(100,), (10000,), (10, 20, 30), (0,)])
def test_allocation(npu: Any, shape: tuple[int, ...]) -> None:
    """A tensor takes its bytes, rounded up to 512."""
    gc.collect()
    before = torch.npu.memory_allocated()
    x = torch.empty(shape, device="npu")
    taken = torch.npu.memory_allocated() - before
    assert x.shape == shape
    assert taken == -(-x.nbytes // 512) * 512


@pytest.mark.behaviour("memory", "a deleted tensor releases its memory")
def test_life(npu: Any, live: Callable[[], tuple[int, int]]) -> None:
    """Deleting a tensor ends its allocation; the next tensor reuses it."""
    before = live()
    x = torch.empty(1000, device="npu")
    address = x.data_ptr()
    assert live() == (before[0] + 1, before[1] + 4096)
    del x
    assert live() == before
    y = torch.empty(1000, device="npu")
    assert y.data_ptr() == address


@pytest.mark.behaviour("memory", "values survive copies there, back and over")
def test_copies(npu: Any) -> None:
    """CPU to device, device to CPU, device to device: the same values."""
    x = torch.randn(100)
    y = x.to("npu")
    same(y, x)
    assert y.to("cpu").device.type == "cpu" and torch.equal(y.to("cpu"), x)
    z = y.clone()
    assert z.data_ptr() != y.data_ptr()
    same(z, x)


@pytest.mark.behaviour("memory",
                       "assigning .data moves a tensor across devices")
@pytest.mark.parametrize("to_device", [True, False])
def test_data_of_another_device(npu: Any, to_device: bool) -> None:
    """x.data = y takes y's device, memory and values."""
    x, y = torch.zeros(2, 2), torch.arange(4.0).reshape(2, 2).npu()
    if not to_device:
        x, y = torch.zeros(2, 2).npu(), torch.arange(4.0).reshape(2, 2)
    assert torch._has_compatible_shallow_copy_type(x, y)
    x.data = y
    assert x.device == y.device and x.data_ptr() == y.data_ptr()
    assert x.tolist() == [[0, 1], [2, 3]]


@pytest.mark.behaviour("memory", "operations in place keep the address")
def test_in_place(npu: Any) -> None:
    """In-place operations change values and not the address."""
    x = torch.ones(100, device="npu")
    address = x.data_ptr()
    x.add_(1)
    same(x, torch.full((100,), 2.0))
    x.mul_(2)
    same(x, torch.full((100,), 4.0))
    assert x.data_ptr() == address


@pytest.mark.behaviour("memory", "views share their tensor's memory")
def test_views(npu: Any, live: Callable[[], tuple[int, int]]) -> None:
    """Views have addresses inside their tensor and allocate nothing."""
    x = torch.arange(100.0, device="npu")
    before = live()
    y, z, alias = x.view(10, 10), x[10:20], x.view_as(x)
    assert live() == before
    assert y.data_ptr() == alias.data_ptr() == x.data_ptr()
    assert z.data_ptr() == x.data_ptr() + 40
    x.fill_(5)
    for t in (y, z, alias):
        same(t, torch.full(t.shape, 5.0))


@pytest.mark.behaviour("memory", "each dtype takes its own number of bytes")
@pytest.mark.parametrize("dtype, size", [
    (torch.float32, 4), (torch.float64, 8), (torch.int32, 4),
    (torch.int64, 8), (torch.float16, 2), (torch.bfloat16, 2),
    (torch.uint8, 1), (torch.bool, 1), (torch.complex64, 8)])
def test_dtypes(npu: Any, dtype: torch.dtype, size: int) -> None:
    """The storage of 100 elements has their bytes."""
    x = torch.empty(100, dtype=dtype, device="npu")
    assert x.dtype == dtype and x.element_size() == size
    assert x.untyped_storage().nbytes() == 100 * size


@pytest.mark.behaviour("memory", "a smaller size keeps memory and values")
def test_resize(npu: Any) -> None:
    """resize_ to fewer elements and back keeps address and values."""
    x = torch.arange(100.0, device="npu")
    address = x.data_ptr()
    x.resize_(50)
    assert x.data_ptr() == address
    same(x, torch.arange(50.0))
    x.resize_(100)
    assert x.data_ptr() == address
    same(x, torch.arange(100.0))


@pytest.mark.behaviour("memory", "emptying the cache leaves no kept memory")
def test_empty_cache(npu: Any) -> None:
    """Memory of deleted tensors is kept until empty_cache."""
    torch.npu.empty_cache()
    x = torch.empty(2000, device="npu")
    del x
    assert torch.npu.memory_reserved() - torch.npu.memory_allocated() == 8192
    torch.npu.empty_cache()
    assert torch.npu.memory_reserved() == torch.npu.memory_allocated()


@pytest.mark.behaviour("memory", "a tensor has the memory format asked for")
def test_memory_format(npu: Any) -> None:
    """channels_last and contiguous give their strides."""
    x = torch.empty(2, 3, 4, 4, device="npu",
                    memory_format=torch.channels_last)
    assert x.stride() == (48, 1, 12, 3)
    assert x.is_contiguous(memory_format=torch.channels_last)
    y = torch.empty(2, 3, 4, 4, device="npu",
                    memory_format=torch.contiguous_format)
    assert y.stride() == (48, 16, 4, 1) and y.is_contiguous()


@pytest.mark.behaviour("memory", "a large tensor takes exactly its bytes")
def test_large(npu: Any, live: Callable[[], tuple[int, int]]) -> None:
    """10 MiB are allocated and released."""
    before = live()
    x = torch.empty(10 * MIB // 4, device="npu")
    assert live()[1] - before[1] == x.nbytes == 10 * MIB
    del x
    assert live() == before


@pytest.mark.behaviour("memory",
                       "tensors that need gradients are on the device")
def test_requires_grad(npu: Any) -> None:
    """requires_grad holds for new tensors; leaves get gradients there."""
    x = torch.empty(100, device="npu", requires_grad=True)
    y = torch.randn(100, device="npu", requires_grad=True)
    assert x.requires_grad and y.requires_grad and y.is_leaf
    (y * 3).sum().backward()
    assert y.grad is not None
    same(y.grad, torch.full((100,), 3.0))


def simple() -> None:
    torch.empty(1000, device="npu")


def of_many_sizes() -> None:
    for size in (100, 500, 1000, 5000, 10000):
        torch.empty(size, device="npu")


def copied() -> None:
    torch.ones(500, device="npu").cpu().to("npu").clone()


def viewed() -> None:
    x = torch.ones(1000, device="npu")
    assert x.view(10, 100)[3].numel() + x[100:200].numel() == 200
    assert x.reshape(20, 50).data_ptr() == x.data_ptr()


def in_place() -> None:
    x = torch.ones(1000, device="npu")
    x.add_(1).mul_(2).div_(2).sub_(1)


def with_gradients() -> None:
    x = torch.ones(100, device="npu", requires_grad=True)
    y = torch.ones(100, device="npu", requires_grad=True)
    (x + y).sum().backward()


def large() -> None:
    torch.empty(50 * MIB // 4, device="npu")


@pytest.mark.behaviour("memory", "repeated work leaves no memory behind")
@pytest.mark.parametrize("work", [
    simple, of_many_sizes, copied, viewed, in_place, with_gradients, large])
def test_no_leaks(
    npu: Any, live: Callable[[], tuple[int, int]], work: Callable[[], None]
) -> None:
    """After 30 rounds no allocation more is alive, without a collection."""
    work()
    before, made = live(), npu.stats()["memory"]["driver_allocations"]
    for _ in range(30):
        work()
    assert live() == before
    assert npu.stats()["memory"]["driver_allocations"] == made


@pytest.mark.behaviour("memory", "allocation cycles reuse the same memory")
def test_cycles(npu: Any, live: Callable[[], tuple[int, int]]) -> None:
    """Ten cycles of 100 tensors need the driver's memory of one."""
    before, made = live(), []
    for _ in range(10):
        tensors = [torch.empty(1000, device="npu") for _ in range(100)]
        assert live()[0] == before[0] + 100
        assert len({t.data_ptr() for t in tensors}) == 100
        tensors.clear()
        assert live() == before
        made.append(npu.stats()["memory"]["driver_allocations"])
    assert made == made[:1] * 10


@pytest.mark.behaviour("memory", "the peak is counted and can be reset")
def test_peak(npu: Any) -> None:
    """max_memory_allocated keeps the most; a reset starts it anew."""
    torch.npu.reset_peak_memory_stats()
    before = torch.npu.memory_allocated()
    x = torch.empty(MIB, device="npu")
    del x
    assert torch.npu.max_memory_allocated() == before + 4 * MIB
    torch.npu.reset_peak_memory_stats()
    assert torch.npu.max_memory_allocated() == torch.npu.memory_allocated()


@pytest.mark.behaviour("memory", "torch.accelerator releases kept memory")
def test_accelerator_empty_cache(npu: Any) -> None:
    """Nothing is kept after empty_cache; no memory of the host is pinned."""
    x = torch.empty(MIB, device="npu")
    del x
    torch.accelerator.empty_cache()
    torch.accelerator.empty_host_cache()
    assert npu.stats()["memory"]["kept_bytes"] == 0
