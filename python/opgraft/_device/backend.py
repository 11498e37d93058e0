# SPDX-License-Identifier: Apache-2.0
"""The module torch.NAME of the device, which torch asks too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Iterable

import torch

from .. import _C
from . import autocast, state, streams
from .state import Device


@dataclass(frozen=True)
class Properties:
    """What `torch.NAME.get_device_properties` gives."""

    name: str
    total_memory: int  # bytes


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

    def init(self) -> None:
        """Nothing: `load_device` has done it."""

    _lazy_init = init

    def _is_in_bad_fork(self) -> bool:
        return _C.device_is_forked()

    def current_device(self) -> int:
        return _C.device_current_get()

    def set_device(self, device: Any) -> None:
        _C.device_current_put(state.index_of(state.as_device(device)))

    def device_count(self) -> int:
        return self._device.count

    def get_device_properties(self, device: Any = None) -> Properties:
        state.index_of(state.as_device(device))
        return Properties(self._device.model, self._device.memory_bytes)

    def get_device_name(self, device: Any = None) -> str:
        return self.get_device_properties(device).name

    def memory_allocated(self, device: Any = None) -> int:
        """Bytes of tensors that are alive."""
        return self._memory(device)["live_bytes"]

    def _memory(self, device: Any) -> dict[str, int]:
        return state.memory_of(self._device,
                               state.index_of(state.as_device(device)))

    def max_memory_allocated(self, device: Any = None) -> int:
        return self._memory(device)["peak_bytes"]

    def memory_reserved(self, device: Any = None) -> int:
        """Bytes of tensors, and of memory that is kept for the next ones."""
        found = self._memory(device)
        return found["live_bytes"] + found["kept_bytes"]

    def mem_get_info(self, device: Any = None) -> tuple[int, int]:
        """Bytes that are free, and of the whole memory. What is kept for the
        next tensors is not free."""
        total = self.get_device_properties(device).total_memory
        return total - self.memory_reserved(device), total

    def reset_peak_memory_stats(self, device: Any = None) -> None:
        _C.device_stats(self._device.handle,
                        state.index_of(state.as_device(device)), True)

    def empty_cache(self) -> None:
        """Gives the driver the memory that no tensor has."""
        _C.device_trim(self._device.handle)

    # Random operators run on the CPU, with the generator that all share.

    def manual_seed_all(self, seed: int) -> None:
        torch.default_generator.manual_seed(seed)

    manual_seed = manual_seed_all

    def seed_all(self) -> None:
        """Another seed, at random."""
        torch.default_generator.seed()

    seed = seed_all

    def initial_seed(self) -> int:
        return torch.default_generator.initial_seed()

    def get_rng_state(self, device: Any = None) -> torch.Tensor:
        return torch.default_generator.get_state()

    def set_rng_state(self, state: torch.Tensor, device: Any = None) -> None:
        torch.default_generator.set_state(state)

    def get_rng_state_all(self) -> list[torch.Tensor]:
        return [self.get_rng_state() for _ in range(self.device_count())]

    def set_rng_state_all(self, states: Iterable[torch.Tensor]) -> None:
        for each in states:
            self.set_rng_state(each)

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return autocast.supported()


class _device_context:
    """torch.NAME.device(index): the current device, for a block."""

    def __init__(self, device: Any) -> None:
        self.index = device if isinstance(device, int) else \
            torch.device(device).index or 0
        self.before = 0

    def __enter__(self) -> None:
        self.before = _C.device_current_get()
        _C.device_current_put(state.index_of(
            torch.device(state.current().name, self.index)))

    def __exit__(self, *raised: Any) -> None:
        _C.device_current_put(self.before)


def _stream_context(stream: Any) -> Any:
    """torch.NAME.stream(s): the current stream, for a block."""
    return stream
