# SPDX-License-Identifier: Apache-2.0
"""What torch.accelerator and torch._dynamo ask of the device.

torch.accelerator asks C++ classes that Python cannot override: its functions
end in torch._C._accelerator_*, which are replaced here. The device is the
accelerator of the process from load_device on, so nothing else is asked there.
Statistics of memory, and streams, are those of the C++ part.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from typing import Any

import torch

from .. import _C
from . import state

_DYNAMO = "torch._dynamo.device_interface"


def register(backend: Any) -> None:
    asked = {
        "setDeviceIndex": _set_index,
        "getDeviceIndex": backend.current_device,
        "exchangeDevice": _exchange_index,
        "maybeExchangeDevice": _exchange_index,
        "synchronizeDevice": backend.synchronize,
        "getMemoryInfo": backend.mem_get_info,
        "getDeviceCapability": _capability,
        "emptyCache": backend.empty_cache,
        "emptyHostCache": _empty_host_cache,
        "isAllocatorInitialized": backend.is_initialized,
    }
    if state.current().cxx_missing is not None:
        asked |= dict.fromkeys(("getDeviceStats", "resetAccumulatedStats",
                                "resetPeakStats"), _no_statistics)
    for name, function in asked.items():
        setattr(torch._C, f"_accelerator_{name}", function)
    if _DYNAMO in sys.modules:
        _add_interface(sys.modules[_DYNAMO])
    else:
        sys.meta_path.insert(0, _WhenImported())


def _set_index(index: int) -> None:
    if index >= 0:  # torch: a negative one changes nothing
        _exchange_index(index)


def _exchange_index(index: int) -> int:
    """Gives the one before."""
    device = state.current()
    before = _C.device_current_get()
    if index >= 0:
        _C.device_current_put(state.index_of(torch.device(device.name, index)))
    return before


def _no_statistics(index: int) -> Any:
    device = state.current()
    raise RuntimeError(
        f"torch.accelerator has no statistics of {device.name}'s memory without "
        f"the C++ part of opgraft: {device.cxx_missing}; torch.{device.name}."
        "memory_allocated and d.stats() count without it")


def _empty_host_cache() -> None:
    """No memory of the CPU is kept."""


def _capability(index: int) -> dict[str, Any]:
    dtypes = {t for t in vars(torch).values() if isinstance(t, torch.dtype)}
    return {"supported_dtypes": {t for t in dtypes if _is_held(t, index)}}


def _is_held(dtype: torch.dtype, index: int) -> bool:
    device = torch.device(state.current().name, index)
    try:
        torch.empty(0, dtype=dtype, device=device)
    except (NotImplementedError, RuntimeError, TypeError):
        return False
    return True


# --- torch._dynamo -----------------------------------------------------------


class _WhenImported(importlib.abc.MetaPathFinder):
    """Adds the interface where somebody imports torch._dynamo: the import
    takes seconds, which a program that does not compile need not spend."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name != _DYNAMO:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def exec_module(module: Any) -> None:
            execute(module)
            _add_interface(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _add_interface(module: Any) -> None:
    device = state.current()
    made = _interface(module.DeviceInterface, getattr(torch, device.name))
    for name in (device.name,
                 *(f"{device.name}:{i}" for i in range(device.count))):
        module.register_interface_for_device(name, made)


def _interface(base: Any, backend: Any) -> Any:
    """Without Stream, Event: dynamo knows subclasses of torch's own alone."""
    class Worker:
        set_device = staticmethod(backend.set_device)
        current_device = staticmethod(backend.current_device)
        get_device_properties = staticmethod(backend.get_device_properties)

    methods = {name: staticmethod(getattr(backend, name)) for name in (
        "current_device", "set_device", "device_count", "is_available",
        "synchronize", "memory_allocated", "get_device_properties")}
    return type("Interface", (base,), {
        **methods, "device": backend.device, "Worker": Worker,
        "exchange_device": staticmethod(_exchange_index),
        "maybe_exchange_device": staticmethod(_exchange_index),
        "is_bf16_supported": staticmethod(_is_bf16_supported)})


def _is_bf16_supported(including_emulation: bool = False) -> bool:
    return True
