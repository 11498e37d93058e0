# SPDX-License-Identifier: Apache-2.0
"""The device of this process: torch has room for one name (PrivateUse1)."""

from __future__ import annotations

import collections
from typing import Any

import torch

from .. import _C

_COUNTS = ("live", "live_bytes", "peak_bytes", "kept_bytes",
           "driver_allocations")
_STREAMS = "opgraft.streams"  # of a thread, in torch's thread-local objects


class Device:
    """What `opgraft.load_device` gives.

    Attributes: `name` (of torch.device), `count`, `model`, `memory_bytes`,
    `lacks` (function that the driver lacks -> what is lost without it),
    `cxx_missing` (why the C++ part is missing; None where it is loaded).

        >>> device = opgraft.load_device("npu_sim.so", "seed=1")
        >>> device.name, device.count
        ('npu', 1)
        >>> torch.arange(4.0).npu() + 1
        tensor([1., 2., 3., 4.], device='npu:0')
        >>> device.stats()["fallbacks"], device.reports()
        ({...}, [])
    """

    def __init__(self, path: str, options: str) -> None:
        self.path = path
        self.options = options
        self.handle: Any = _C.device_load(path, options)
        (self.name, self.type, self.count, self.model, self.memory_bytes,
         lacks) = _C.device_info(self.handle)
        self.lacks = dict(lacks)
        self.cxx_missing: str | None = "it is not loaded yet"
        self.fallbacks: collections.Counter[str] = collections.Counter()

    def reports(self) -> list[str]:
        """What the driver reported since the last call, such as races."""
        return _C.device_reports(self.handle)

    def stats(self) -> dict[str, Any]:
        """`fallbacks`: operator -> calls that ran on the CPU; `memory`: counts
        and bytes of tensors, of what is kept for others, of the driver's."""
        each = [memory_of(self, i) for i in range(self.count)]
        return {"fallbacks": dict(self.fallbacks),
                "memory": {name: sum(m[name] for m in each)
                           for name in _COUNTS},
                "lacks": dict(self.lacks)}

    def __repr__(self) -> str:
        return f"<opgraft device {self.name} ({self.model}, {self.path})>"


loaded: Device | None = None


def current() -> Device:
    if loaded is None:
        raise RuntimeError("no device is loaded; call opgraft.load_device first")
    return loaded


def memory_of(device: Device, index: int) -> dict[str, int]:
    """What `stats` has of memory, of one device."""
    found = _C.device_stats(device.handle, index, False)
    return dict(zip(_COUNTS, found, strict=True))


def index_of(device: Any) -> int:
    """The device's index; raises for one that is not there."""
    index = torch.device(device).index if device is not None else None
    index = _C.device_current_get() if index is None else index
    if not 0 <= index < current().count:
        name = current().name
        raise RuntimeError(
            f"there is no device {name}:{index}, expected {name}:0 to "
            f"{name}:{current().count - 1}")
    return index


def as_device(device: Any) -> Any:
    """A number is an index of the device."""
    if isinstance(device, int):
        return torch.device(current().name, device)
    return device


def thread_streams() -> tuple[Any, ...]:
    """The current stream of each device, in this thread; None: the default."""
    if torch._C._is_key_in_tls(_STREAMS):
        return torch._C._get_obj_in_tls(_STREAMS)
    return (None,) * current().count


def thread_streams_set(streams: tuple[Any, ...]) -> None:
    torch._C._stash_obj_in_tls(_STREAMS, streams)


def thread_streams_bind() -> None:
    """What runs without a stream of its own uses the thread's from now on. The
    C++ part has said so already, with torch's own current streams."""
    if current().cxx_missing is None:
        return
    _C.device_streams(current().handle, torch._C._is_key_in_tls,
                      torch._C._get_obj_in_tls, _STREAMS)


def stream_handle(index: int) -> Any:
    """Of the current stream; None: the default one's."""
    if current().cxx_missing is None:
        return _C.device_stream_current(index)
    stream = thread_streams()[index]
    return None if stream is None else stream.handle
