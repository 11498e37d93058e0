# SPDX-License-Identifier: Apache-2.0
"""Behaviours of pinned memory and of DataLoader."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from on_npu import same
from torch.utils.data import DataLoader, TensorDataset

pytestmark = pytest.mark.filterwarnings(
    "ignore:TypedStorage is deprecated")

NOT_PINNED = pytest.mark.cxx(
    "at::PrivateUse1HooksInterface::getPinnedMemoryAllocator and isPinnedPtr",
    raises=NotImplementedError)


def numbers() -> TensorDataset:
    return TensorDataset(torch.arange(8.0).reshape(4, 2), torch.arange(4))


@pytest.mark.behaviour("pinned memory", "memory is not pinned unless asked")
def test_not_pinned(npu: Any) -> None:
    """is_pinned is false for plain tensors and storages of the CPU."""
    x = torch.randn(10)
    assert not x.is_pinned()
    assert not x.storage().is_pinned("npu")
    assert not x.untyped_storage().is_pinned("npu")


@pytest.mark.behaviour("pinned memory", "a tensor of the CPU is pinned")
@NOT_PINNED
def test_pin_tensor(npu: Any) -> None:
    """pin_memory copies; the copy and its views are pinned."""
    x = torch.randn(10)
    pinned = x.pin_memory()
    assert pinned.is_pinned() and not x.is_pinned()
    assert pinned[2:5].is_pinned() and torch.equal(pinned, x)
    same(pinned.npu(non_blocking=True), x)


@pytest.mark.behaviour("pinned memory", "a storage of the CPU is pinned")
@NOT_PINNED
@pytest.mark.parametrize("is_typed", [True, False])
def test_pin_storage(npu: Any, is_typed: bool) -> None:
    """pin_memory of a storage copies it to pinned memory."""
    x = torch.randn(10)
    storage = x.storage() if is_typed else x.untyped_storage()
    pinned = storage.pin_memory("npu")
    assert pinned.is_pinned("npu") and not storage.is_pinned("npu")
    assert pinned.tolist() == storage.tolist()


@pytest.mark.behaviour("pinned memory",
                       "a new tensor is made in pinned memory")
@NOT_PINNED
def test_pinned_factory(npu: Any) -> None:
    """empty(pin_memory=True) gives a pinned tensor of the CPU."""
    x = torch.empty(10, pin_memory=True)
    assert x.is_cpu and x.is_pinned()


@pytest.mark.behaviour("DataLoader", "a loader pins its batches")
@NOT_PINNED
def test_loader_that_pins(npu: Any) -> None:
    """DataLoader(pin_memory=True) gives pinned batches."""
    found = list(DataLoader(numbers(), batch_size=2, pin_memory=True))
    assert all(x.is_pinned() and y.is_pinned() for x, y in found)
    assert [y.tolist() for _, y in found] == [[0, 1], [2, 3]]


@pytest.mark.behaviour("DataLoader",
                       "a loader's batches are moved to the device")
@pytest.mark.parametrize("workers", [0, 2])
def test_loader(npu: Any, workers: int) -> None:
    """Batches of worker processes have the data set's values there."""
    found = [(x.npu(), y.npu()) for x, y in DataLoader(
        numbers(), batch_size=2, num_workers=workers)]
    same(torch.cat([x for x, _ in found]), torch.arange(8.0).reshape(4, 2))
    same(torch.cat([y for _, y in found]), torch.arange(4))


@pytest.mark.behaviour("DataLoader", "a data set may lie on the device")
def test_loader_on_the_device(npu: Any) -> None:
    """Batches of a data set on the device are there too."""
    data = TensorDataset(torch.arange(4.0).npu())
    for at, [x] in enumerate(DataLoader(data, batch_size=2)):
        same(x, torch.arange(4.0)[2 * at:2 * at + 2])
