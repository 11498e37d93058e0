# SPDX-License-Identifier: Apache-2.0
"""opgraft.load_device: a driver becomes a device of torch."""

from __future__ import annotations

import os
from typing import Any

import torch
from torch.utils import backend_registration

from .. import _C
from .._base import host, locks
from . import autocast, operators, state, storage, streams
from .state import Device


def load_device(path: str | os.PathLike[str], options: str = "") -> Device:
    """Loads a driver that ends with OG_DEVICE_DRIVER, and registers its device.

    The driver's name is the device's: torch.device("npu:0"), tensor.npu(),
    torch.npu. A process has one; the same file and options give it again.
    `options` are the driver's own.

    OSError where the path is no driver; RuntimeError where a function of the
    driver's table is missing or wrong, or the process has another device.

        >>> device = opgraft.load_device("npu_sim.so", "seed=1")
        >>> torch.ones(2, device="npu").sum()
        tensor(2., device='npu:0')
    """
    host.prepare()
    where = os.path.realpath(os.fspath(path))
    with locks.registry:
        known = state.loaded
        if known is None:
            return _open(where, options)
        if (known.path, known.options) == (where, options):
            return known
    raise RuntimeError(
        f"{where}: torch has room for one such device, and {known.name} is "
        f"{known.path} with options {known.options!r}; start another process")


def _open(where: str, options: str) -> Device:
    device = Device(where, options)
    try:
        return _register(device)
    except BaseException:
        _C.device_close(device.handle)  # else no other driver has its type
        raise


def _register(device: Device) -> Device:
    if hasattr(torch, device.name):
        raise RuntimeError(
            f"{device.path}: the driver's name is {device.name!r}, and torch "
            f"has torch.{device.name} already; give the driver another name")
    hook = backend_registration._DummyPrivateUse1Hook()
    guard = backend_registration._DummyDeviceGuard()
    backend_registration._setup_privateuseone_for_python_backend(
        device.name, backend_module=Backend(device), hook=hook,
        device_guard=guard)
    operators.register()
    autocast.register()
    state.loaded = device
    storage.register()
    return device


# --- torch.npu ---------------------------------------------------------------


class Backend:
    """The module torch.NAME of the device."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self.device = _device_context
        self.Stream = streams.Stream
        self.Event = streams.Event
        self.stream = _stream_context
        self.record_stream = streams.record_stream
        self.current_stream = streams.current_stream
        self.default_stream = streams.default_stream
        self.set_stream = streams.set_stream
        self.synchronize = streams.synchronize

    def is_initialized(self) -> bool:
        return True

    def is_available(self) -> bool:
        return True

    def _lazy_init(self) -> None:
        pass

    def _is_in_bad_fork(self) -> bool:
        return _C.device_is_forked()

    def current_device(self) -> int:
        return self._device.index

    def set_device(self, device: Any) -> None:
        self._device.index = state.index_of(torch.device(
            self._device.name, device) if isinstance(device, int) else device)

    def device_count(self) -> int:
        return self._device.count

    def memory_allocated(self, device: Any = None) -> int:
        """Bytes of tensors that are alive."""
        return self._device.stats()["memory"]["live_bytes"]

    def max_memory_allocated(self, device: Any = None) -> int:
        return self._device.stats()["memory"]["peak_bytes"]

    def memory_reserved(self, device: Any = None) -> int:
        """Bytes of tensors, and of memory that is kept for the next ones."""
        found = self._device.stats()["memory"]
        return found["live_bytes"] + found["kept_bytes"]

    def reset_peak_memory_stats(self, device: Any = None) -> None:
        _C.device_stats(self._device.handle, True)

    def empty_cache(self) -> None:
        """Gives the driver the memory that no tensor has."""
        _C.device_trim(self._device.handle)

    def manual_seed_all(self, seed: int) -> None:
        """Random operators run on the CPU, with its generator."""
        torch.default_generator.manual_seed(seed)

    manual_seed = manual_seed_all

    def get_rng_state(self, device: Any = None) -> torch.Tensor:
        return torch.default_generator.get_state()

    def set_rng_state(self, state: torch.Tensor, device: Any = None) -> None:
        torch.default_generator.set_state(state)

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return autocast.supported()


class _device_context:
    """torch.NAME.device(index): the current device, for a block."""

    def __init__(self, device: Any) -> None:
        self.index = device if isinstance(device, int) else \
            torch.device(device).index or 0
        self.before = 0

    def __enter__(self) -> None:
        self.before = state.current().index
        state.current().index = state.index_of(
            torch.device(state.current().name, self.index))

    def __exit__(self, *raised: Any) -> None:
        state.current().index = self.before


def _stream_context(stream: streams.Stream) -> streams.Stream:
    """torch.NAME.stream(s): the current stream, for a block."""
    return stream
