# SPDX-License-Identifier: Apache-2.0
"""Behaviours of storages, of saving and loading, of a backend's metadata."""

from __future__ import annotations

import copy
import io
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from on_npu import alone, same

pytestmark = pytest.mark.filterwarnings(
    "ignore:TypedStorage is deprecated")

METADATA = {"version_number": True, "format_number": True}
NO_METADATA = pytest.mark.cxx("torch::jit::TensorBackendMetaRegistry",
                              raises=AssertionError)


def saved(value: Any) -> io.BytesIO:
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return file


# --- Storages ----------------------------------------------------------------


@pytest.mark.behaviour("storage", "a tensor's storage is on the device")
def test_storage(npu: Any) -> None:
    """A storage has the device, the bytes and the count of its tensor."""
    x = torch.arange(10.0).npu()
    assert x.untyped_storage().device == torch.device("npu:0")
    assert x.untyped_storage().nbytes() == 40
    assert x.storage().device.type == "npu" and x.storage().size() == 10
    assert x[2:4].untyped_storage().data_ptr() == x.data_ptr()
    assert x.storage().tolist() == list(range(10))


@pytest.mark.behaviour("storage",
                       "storages say whether they are on the device")
def test_storage_is_npu(npu: Any) -> None:
    """is_npu tells a storage of the device from one of the CPU."""
    x = torch.ones(4)
    assert x.npu().storage().is_npu and not x.storage().is_npu
    assert x.npu().untyped_storage().is_npu
    assert not x.untyped_storage().is_npu


@pytest.mark.behaviour("storage", "storages are copied to the device by name")
def test_storage_npu(npu: Any) -> None:
    """storage.npu() gives a storage of the device with the same values."""
    x = torch.arange(4.0)
    for storage in (x.storage().npu(), x.untyped_storage().npu()):
        assert storage.device == torch.device("npu:0")
        assert storage.nbytes() == 16
        same(torch.empty(0, device="npu").set_(storage, 0, (4,)), x)


@pytest.mark.behaviour("storage", "an empty storage is made on the device")
def test_new_storage(npu_path: Path) -> None:
    """torch.UntypedStorage(4, device) has four bytes there."""
    text = ("for device in ('npu', 'npu:0'):\n"
            "    storage = torch.UntypedStorage(4, device=device)\n"
            "    print(torch.serialization.location_tag(storage),\n"
            "          storage.nbytes())\n")
    assert alone(npu_path, text) == "npu:0 4\nnpu:0 4\n"


@pytest.mark.behaviour("storage", "a storage is made of values and of types")
def test_new_storage_forms(npu: Any) -> None:
    """Of bytes, of a subclass, of a typed one; others are not touched."""
    class Own(torch.UntypedStorage):
        """A subclass."""

    kind = torch.UntypedStorage
    for device in ("npu", torch.device("npu", 0), 0):
        assert kind([1, 2], device=device).tolist() == [1, 2]
    assert kind(device="npu").nbytes() == 0
    own = Own(3, device="npu")
    assert type(own) is Own and own.device.type == "npu" and len(own) == 3
    typed = torch.TypedStorage([1, 2], dtype=torch.half, device="npu")
    assert typed.device.type == "npu" and typed.tolist() == [1, 2]
    assert kind(4).device.type == kind(4, device=None).device.type == "cpu"
    assert kind(4, device="meta").device.type == "meta"
    with pytest.raises(RuntimeError, match="no device npu:1"):
        kind(4, device="npu:1")
    with pytest.raises(TypeError, match="invalid combination of arguments"):
        kind(1, 2, device="npu")


@pytest.mark.behaviour("storage", "a storage changes type and device")
def test_storage_copies(npu: Any) -> None:
    """to, cpu, float and copy.copy of a storage copy its values."""
    x = torch.arange(4, dtype=torch.uint8)
    there = x.untyped_storage().to(device="npu")
    assert there.device == torch.device("npu:0")
    assert there.tolist() == [*range(4)]
    assert there.cpu().device.type == "cpu"
    assert there.float().tolist() == [*range(4)]
    copied = copy.copy(there)
    copied[0] = 9
    assert there.tolist() == [*range(4)] and copied.device == there.device


@pytest.mark.behaviour("storage", "a deep copy has its own memory")
def test_deep_copy(npu_path: Path) -> None:
    """Writes to a deep copy of a tensor leave the original."""
    text = ("import copy\n"
            "x = torch.arange(4.0).npu()\n"
            "y = copy.deepcopy(x)\n"
            "y.add_(1)\n"
            "print(y.device, x.tolist(), y.tolist())\n")
    assert alone(npu_path, text) == (
        "npu:0 [0.0, 1.0, 2.0, 3.0] [1.0, 2.0, 3.0, 4.0]\n")


@pytest.mark.behaviour("storage", "a clone of a storage has its own memory")
def test_clone(npu_path: Path) -> None:
    """Writes to a clone of a storage leave the original."""
    text = ("x = torch.arange(4, dtype=torch.uint8).npu()\n"
            "for storage in (x.untyped_storage(), x.storage()):\n"
            "    clone = storage.clone()\n"
            "    clone[0] = 9\n"
            "    print(clone.device, x.tolist(), clone.tolist())\n")
    assert alone(npu_path, text) == (
        "npu:0 [0, 1, 2, 3] [9, 1, 2, 3]\n" * 2)


@pytest.mark.behaviour("storage", "a storage wrapped anew stays pinned")
@pytest.mark.cxx("at::PrivateUse1HooksInterface::getPinnedMemoryAllocator",
                 raises=NotImplementedError)
def test_rewrapped_pinned_storage(npu: Any) -> None:
    """A tensor on a part of a pinned storage is pinned."""
    pinned = torch.randn(10).pin_memory()
    part = torch.tensor(()).set_(pinned.untyped_storage()[8:], 0, (5,), (1,))
    assert part.is_pinned() and part.data_ptr() == pinned.data_ptr() + 8


@pytest.mark.behaviour("storage", "set_ takes another tensor's storage")
def test_set(npu: Any) -> None:
    """set_ with a tensor or a storage shares its memory."""
    x = torch.arange(12.0).reshape(3, 4).npu()
    for y in (torch.empty(3, 4, device="npu").set_(x),
              torch.empty(0, device="npu").set_(x.storage(), 0, (3, 4)),
              torch.empty(0, device="npu").set_(x.untyped_storage(), 0,
                                                (3, 4), (4, 1))):
        assert y.data_ptr() == x.data_ptr()
        same(y, torch.arange(12.0).reshape(3, 4))


@pytest.mark.behaviour("storage", "a storage names a type set by the backend")
def test_storage_type(npu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """type() gives torch.npu.FloatStorage where the backend has that name."""
    class Named:
        """Stands for a class: it has the name of one."""

    own = Named()
    own.__module__, own.__name__ = "torch.npu", "FloatStorage"
    x = torch.ones(8)
    storage = x.npu().storage()
    assert x.storage().type() == "torch.FloatStorage"
    assert storage.type() == "torch.storage.TypedStorage"
    monkeypatch.setattr(torch.npu, "FloatStorage", own, raising=False)
    assert storage.type() == "torch.npu.FloatStorage"
    assert x.int().npu().storage().type() == "torch.storage.TypedStorage"


# --- Saving and loading ------------------------------------------------------


@pytest.mark.behaviour("serialisation", "a storage's tag names its device")
def test_location_tag(npu: Any) -> None:
    """location_tag gives the device with its index."""
    for device in ("npu", "npu:0"):
        storage = torch.ones(4, device=device).untyped_storage()
        assert torch.serialization.location_tag(storage) == "npu:0"


@pytest.mark.behaviour("serialisation",
                       "a bare storage is restored on a device")
def test_restore_untyped(npu: Any) -> None:
    """default_restore_location copies an untyped storage to the device."""
    x = torch.arange(4.0)
    found = torch.serialization.default_restore_location(
        x.untyped_storage(), "npu:0")
    assert found.device == torch.device("npu:0")
    same(torch.empty(0, device="npu").set_(found, 0, (4,)), x)


@pytest.mark.behaviour("serialisation",
                       "a typed storage is restored on a device")
def test_restore_typed(npu: Any) -> None:
    """default_restore_location copies a typed storage to the device."""
    x = torch.arange(4.0)
    found = torch.serialization.default_restore_location(x.storage(), "npu:0")
    assert found.device.type == "npu"
    same(torch.empty(0, device="npu").set_(found, 0, (4,)), x)


@pytest.mark.behaviour("serialisation",
                       "a saved tensor is loaded on its device")
def test_save_and_load(npu: Any, tmp_path: Path) -> None:
    """torch.load gives a tensor of the device; views stay shared."""
    x = torch.arange(9.0).reshape(3, 3).npu()
    torch.save({"x": x, "row": x[1]}, tmp_path / "data.pt")
    found = torch.load(tmp_path / "data.pt", weights_only=True)
    same(found["x"], torch.arange(9.0).reshape(3, 3))
    found["row"].zero_()
    assert found["x"].tolist() == [[0, 1, 2], [0, 0, 0], [6, 7, 8]]


@pytest.mark.behaviour("serialisation", "map_location moves what is loaded")
def test_map_location(npu: Any) -> None:
    """From the device to the CPU, from the CPU to the device, and there."""
    x = torch.randn(3, 3)
    found = torch.load(saved(x.npu()), map_location="cpu")
    assert found.is_cpu and torch.equal(found, x)
    for location in ("npu", "npu:0", torch.device("npu")):
        same(torch.load(saved(x), map_location=location), x)
        same(torch.load(saved(x.npu()), map_location=location), x)


@pytest.mark.behaviour("serialisation",
                       "a missing device is refused by a load")
def test_map_to_a_missing_device(npu: Any) -> None:
    """map_location that names a device that is not there is an error."""
    with pytest.raises(RuntimeError, match="no device npu:1"):
        torch.load(saved(torch.ones(2)), map_location="npu:1")


@pytest.mark.behaviour("serialisation", "tensors in NumPy form are loaded")
def test_load_of_numpy_form(npu: Any) -> None:
    """A file that holds a tensor as an array gives a tensor of the device."""
    class Saved:
        def __reduce__(self) -> Any:
            values = np.arange(1, 7, dtype=np.float32).reshape(2, 3)
            return (torch._utils._rebuild_device_tensor_from_numpy,
                    (values, torch.float32, "npu:0", False))

    file, wanted = saved({"x": Saved()}), torch.arange(1.0, 7).reshape(2, 3)
    same(torch.load(file, weights_only=False)["x"], wanted)
    file.seek(0)
    on_cpu = torch.load(file, weights_only=False, map_location="cpu")["x"]
    assert on_cpu.is_cpu and torch.equal(on_cpu, wanted)


@pytest.mark.behaviour("serialisation", "tensors without storage are saved")
def test_save_without_storage(npu: Any) -> None:
    """Where tensors have no storage, torch.save takes a copy on the CPU."""
    x = torch.randn(2, 3)
    with mock.patch.object(torch._C, "_has_storage", return_value=False):
        rebuild = x.npu()._reduce_ex_internal(2)[0]
        assert rebuild is torch._utils._rebuild_device_tensor_from_cpu_tensor
        file = saved({"x": x.npu()})
        same(torch.load(file, weights_only=True)["x"], x)
        file.seek(0)
        found = torch.load(file, weights_only=True, map_location="cpu")["x"]
        assert found.is_cpu and torch.equal(found, x)
        with torch.serialization.skip_data():
            with pytest.raises(RuntimeError, match="no storage under"):
                saved({"x": x.npu()})


@pytest.mark.behaviour("serialisation",
                       "a tensor keeps its backend's metadata")
@NO_METADATA
def test_metadata(npu: Any) -> None:
    """Metadata that was set is there, and after a load; not on the CPU."""
    x = torch.empty(3, 3, device="npu")
    assert torch._utils.get_tensor_metadata(x) == {}
    torch._utils.set_tensor_metadata(x, METADATA)
    assert torch._utils.get_tensor_metadata(x) == METADATA
    file = saved(x)
    assert torch._utils.get_tensor_metadata(torch.load(file)) == METADATA
    file.seek(0)
    on_cpu = torch.load(file, map_location="cpu")
    assert torch._utils.get_tensor_metadata(on_cpu) == {}
