# SPDX-License-Identifier: Apache-2.0
"""torch.NAME.Stream and Event: of the driver.

Without the C++ part, the current streams of a thread stand in torch's own
thread-local objects, which autograd brings to the threads that run a backward:
it uses the streams that are current where backward() is called. With it, each
stream has a number, by which torch.Stream is the same stream, and torch's own
guard says which is current; the thread-local objects only keep it alive.
"""

from __future__ import annotations

import weakref
from typing import Any

import torch

from .. import _C
from . import state

_FOR_EVER = -1
_DEFAULT_ID = 0
_made: weakref.WeakValueDictionary[int, Stream] = weakref.WeakValueDictionary()


class Stream:
    """Work in the order in which it is given; streams run side by side. Used as
    a context manager, it is the current stream of the block.

    `device`: a torch.device, an index, or None for the current one. Raises
    RuntimeError where the driver has no events: all work uses one stream.
    """

    def __init__(self, device: Any = None) -> None:
        known = state.current()
        if "event_create" in known.lacks:
            raise RuntimeError(
                f"{known.name}: the driver has no event_create: "
                f"{known.lacks['event_create']}")
        index = state.index_of(state.as_device(device))
        handle = _C.device_stream(known.handle, index)
        self._enter(known, index, handle, _C.device_stream_number(handle))
        state.thread_streams_bind()
        _made[self.stream_id] = self

    def _enter(self, known: state.Device, index: int, handle: Any,
               stream_id: int) -> None:
        self._known, self._index, self.handle = known, index, handle
        self.stream_id = stream_id
        self._before: list[Stream] = []

    @classmethod
    def _numbered(cls, index: int, number: int) -> Stream:
        """The one that torch.Stream knows by this number."""
        made = _made.get(number)
        if made is not None:
            return made
        stream = cls.__new__(cls)
        stream._enter(state.current(), index, number or None, number)
        return stream

    @classmethod
    def _of(cls, stream: Any, index: int = -1) -> Stream:
        """Also of a torch.Stream; None: the current one of the device."""
        if stream is None:
            return current_stream(index)
        if isinstance(stream, Stream):
            return stream
        return cls._numbered(stream.device_index, stream.stream_id)

    @property
    def device(self) -> torch.device:
        return torch.device(self._known.name, self._index)

    @property
    def device_index(self) -> int:
        return self._index

    @property
    def device_type(self) -> int:
        """torch's number of the device's type, as of torch.Stream."""
        return int(torch._C._autograd.DeviceType.PrivateUse1.value)

    def synchronize(self) -> None:
        """Waits for its work; raises what that failed with."""
        self._wait(_FOR_EVER)

    def query(self) -> bool:
        """Whether its work is done; raises what that failed with."""
        return self._wait(0)

    def _wait(self, timeout_ns: int) -> bool:
        return _C.device_stream_wait(self._known.handle, self._index, self.handle,
                                     timeout_ns)

    def record_event(self, event: Event | None = None) -> Event:
        """An event behind the work that was given so far."""
        event = event or Event(device=self.device)
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        """What is given from now on waits for the event's latest record."""
        event.wait(self)

    def wait_stream(self, stream: Any) -> None:
        """What is given from now on waits for that stream's work so far."""
        self.wait_event(Stream._of(stream).record_event())

    def __enter__(self) -> Stream:
        self._before.append(current_stream(self._index))
        set_stream(self)
        return self

    def __exit__(self, *raised: Any) -> None:
        set_stream(self._before.pop())

    def __eq__(self, other: object) -> bool:
        return (isinstance(other, (Stream, torch.Stream))
                and self.stream_id == other.stream_id
                and self.device == other.device)

    def __hash__(self) -> int:
        return hash((self.stream_id, self._index))

    def __repr__(self) -> str:
        kind = "default stream" if self.handle is None else "stream"
        return f"<{kind} of {self.device}>"


class Event:
    """A point in a stream's work. `enable_timing`: `elapsed_time` will be called."""

    def __init__(self, enable_timing: bool = False, device: Any = None) -> None:
        known = state.current()
        if enable_timing and "event_elapsed" in known.lacks:
            raise RuntimeError(
                f"{known.name}: the driver has no event_elapsed: "
                f"{known.lacks['event_elapsed']}")
        self._index = state.index_of(state.as_device(device))
        self._has_time = enable_timing
        self._is_recorded = False
        self.handle = _C.device_event(known.handle, self._index)

    def record(self, stream: Any = None) -> None:
        """It stands for what the stream (None: the current one) was given."""
        stream = Stream._of(stream, self._index)
        _C.device_event_record(self.handle, stream._index, stream.handle)
        self._is_recorded = True

    def wait(self, stream: Any = None) -> None:
        """The stream's later work waits; nothing where it was not recorded."""
        stream = Stream._of(stream, self._index)
        _C.device_event_wait(self.handle, stream._index, stream.handle)

    def query(self) -> bool:
        """Whether the work before its latest record is done."""
        return _C.device_event_synchronize(self.handle, 0)

    def synchronize(self) -> None:
        """Waits for the work before its latest record."""
        _C.device_event_synchronize(self.handle, _FOR_EVER)

    def elapsed_time(self, end: Event) -> float:
        """Milliseconds from this event to `end`, both reached."""
        for event, name in ((self, "the first"), (end, "the second")):
            if not event._has_time:
                raise ValueError(f"{name} event has no time, expected one that "
                                 "is made with enable_timing=True")
            if not event._is_recorded:
                raise ValueError(f"{name} event was never recorded, expected "
                                 "one behind a stream's work")
        return _C.device_event_elapsed(self.handle, end.handle) / 1e6


def current_stream(device: Any = None) -> Stream:
    """The stream that this thread's work on the device uses."""
    index = state.index_of(state.as_device(device))
    if state.current().cxx_missing is None:
        return Stream._numbered(index, _C.device_stream_current(index))
    return state.thread_streams()[index] or Stream._numbered(index, _DEFAULT_ID)


def default_stream(device: Any = None) -> Stream:
    """The stream of work that names none."""
    return Stream._numbered(state.index_of(state.as_device(device)),
                            _DEFAULT_ID)


def set_stream(stream: Any) -> None:
    """Makes it the current one of its device, in this thread."""
    stream = Stream._of(stream)
    streams = list(state.thread_streams())
    streams[stream._index] = stream
    state.thread_streams_set(tuple(streams))
    if state.current().cxx_missing is None:
        _C.device_stream_exchange(stream._index, stream.stream_id)


def synchronize(device: Any = None) -> None:
    """Waits for all streams of a device; raises the first failure of theirs,
    behind the last wait."""
    _C.device_synchronize(state.current().handle,
                          state.index_of(state.as_device(device)))


def record_stream(tensor: torch.Tensor, stream: Any) -> None:
    """The stream uses the tensor, which another one made: when the tensor
    releases its memory, the next owner's work waits for the stream."""
    stream = Stream._of(stream)
    _C.device_stream_record(
        state.current().handle, stream._index, stream.handle,
        tensor.untyped_storage().data_ptr())
