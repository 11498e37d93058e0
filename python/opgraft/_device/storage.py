# SPDX-License-Identifier: Apache-2.0
"""Storages of the device: made, saved, loaded, sent to other processes.

A storage takes its memory from a tensor of bytes: torch makes one alone with
the c10::Allocator of its device, which C++ alone registers.
"""

from __future__ import annotations

import ctypes
import functools
from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch
from torch.multiprocessing import reductions

from . import memory, state

_PRIORITY = 5  # before torch's own, which would build a storage alone


def register(load_device: Any) -> None:
    # Without an allocator, torch's own ends the process on the device.
    torch.UntypedStorage.__new__ = staticmethod(_new)
    torch.utils.generate_methods_for_privateuse1_backend(
        for_tensor=False, for_module=False, for_packed_sequence=False,
        for_storage=True)
    torch.serialization.register_package(_PRIORITY, _tag, _restore)
    # torch.multiprocessing takes what is not CUDA's for memory of the CPU.
    ForkingPickler.register(torch.UntypedStorage,
                            functools.partial(_reduce, load_device))


def _is_here(device: Any) -> bool:
    return (device is not None
            and torch.device(device).type == state.current().name)


def _bytes(storage: Any) -> torch.Tensor:
    """Those of a storage of the CPU, as a tensor on it."""
    return torch.empty(0, dtype=torch.uint8, device="cpu").set_(storage)


# --- torch.UntypedStorage ----------------------------------------------------


def _new(cls: Any, *args: Any, **kwargs: Any) -> Any:
    """UntypedStorage(size or bytes, device=None)."""
    if not _is_here(kwargs.get("device")):
        return torch._C.StorageBase.__new__(cls, *args, **kwargs)
    device = kwargs.pop("device")
    has_values = not all(isinstance(v, int) for v in (*args, *kwargs.values()))
    # torch reads the arguments; a storage of meta has a size and no memory.
    asked = torch._C.StorageBase.__new__(
        cls, *args, **kwargs, device="cpu" if has_values else "meta")
    made = (memory.from_host(_bytes(asked), device) if has_values
            else torch.empty(asked.nbytes(), dtype=torch.uint8, device=device))
    storage = made.untyped_storage()
    if cls is not torch.UntypedStorage:
        storage.__class__ = cls
    return storage


# --- torch.save and torch.load -----------------------------------------------


def _tag(storage: Any) -> str | None:
    if not _is_here(storage.device):
        return None
    return f"{storage.device.type}:{storage.device.index or 0}"


def _restore(storage: Any, location: str) -> Any:
    if not _is_here(location):
        return None
    if isinstance(storage, torch.storage.TypedStorage):
        return storage._new_wrapped_storage(
            _restore(storage._untyped_storage, location))
    return memory.from_host(_bytes(storage), location).untyped_storage()


# --- Other processes ---------------------------------------------------------


def _reduce(load_device: Any, storage: Any) -> Any:
    """How ForkingPickler sends a storage: as its bytes. Memory that processes
    share would have to live in this one until the other has opened it."""
    if not _is_here(storage.device):
        return reductions.reduce_storage(storage)
    device, values = state.current(), storage.cpu()
    return _rebuild, (
        load_device, device.path, device.options, _tag(storage),
        ctypes.string_at(values.data_ptr(), values.nbytes()))


def _rebuild(
    load_device: Any, path: str, options: str, location: str, values: bytes
) -> Any:
    # An argument of a spawned process arrives before its first line runs.
    device = state.loaded or load_device(path, options)
    if torch.device(location).type != device.name:
        raise RuntimeError(
            f"a storage of {location} arrived from another process: this one "
            f"has loaded {device.name} ({device.path}), expected {path}")
    return _restore(
        torch.UntypedStorage.from_buffer(values, dtype=torch.uint8), location)
