# SPDX-License-Identifier: Apache-2.0
"""Behaviours of streams and events: torch.npu's own, and PyTorch's generic
ones. The race detector is on: an order that is missing fails the test."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from on_npu import same

GUARD = "c10::impl::DeviceGuardImplInterface"
NEW_STREAM = pytest.mark.cxx(f"{GUARD}::getNewStream and exchangeStream",
                             raises=AssertionError)


def behind(stream: Any) -> Any:
    """A new stream whose work follows the stream's work so far."""
    new = torch.npu.Stream()
    new.wait_stream(stream)
    return new


# --- Streams -----------------------------------------------------------------


@pytest.mark.behaviour("stream", "a new stream belongs to the device named")
def test_create(npu: Any) -> None:
    """torch.npu.Stream takes a device or an index; each one is new."""
    streams = [torch.npu.Stream(d)
               for d in (None, 0, "npu:0", torch.device("npu", 0))]
    for stream in streams:
        assert stream.device == torch.device("npu:0")
        assert stream != torch.npu.default_stream()
    assert len(set(streams)) == 4


@pytest.mark.behaviour("stream",
                       "torch.Stream has the device's type and index")
def test_generic_create(npu: Any) -> None:
    """torch.Stream takes a device or an index, and can be rebuilt from ids."""
    for stream in (torch.Stream(device="npu"), torch.Stream("npu:0"),
                   torch.Stream(0)):
        assert stream.device == torch.device("npu:0")
        assert stream.device_index == torch.npu.current_device() == 0
        again = torch.Stream(stream_id=stream.stream_id,
                             device_type=stream.device_type,
                             device_index=stream.device_index)
        assert again == stream


@pytest.mark.behaviour("stream", "each torch.Stream is a stream of its own")
@NEW_STREAM
def test_generic_streams_differ(npu: Any) -> None:
    """Two streams of torch.Stream have different ids."""
    first, second = torch.Stream(device="npu"), torch.Stream(device="npu")
    assert first.stream_id != second.stream_id
    assert first != second


@pytest.mark.behaviour("stream", "a stream's block makes it the current one")
def test_context(npu: Any) -> None:
    """Inside the block it is the current stream, outside the one before."""
    with torch.npu.Stream() as outer:
        assert torch.npu.current_stream() == outer
        with torch.npu.stream(torch.npu.Stream()) as inner:
            assert torch.npu.current_stream() == inner != outer
        assert torch.npu.current_stream() == outer
    assert torch.npu.current_stream() == torch.npu.default_stream()


@pytest.mark.behaviour("stream", "a torch.Stream's block makes it the current")
@NEW_STREAM
def test_generic_context(npu: Any) -> None:
    """Inside the block torch.accelerator and torch.npu have its stream."""
    before = torch.accelerator.current_stream()
    with torch.Stream(device="npu") as stream:
        assert torch.accelerator.current_stream() == stream != before
        assert torch.npu.current_stream() != torch.npu.default_stream()
    assert torch.accelerator.current_stream() == before


@pytest.mark.behaviour("stream", "set_stream switches the current stream")
def test_switch(npu: Any) -> None:
    """The stream that was set last is the current one."""
    before = torch.npu.current_stream()
    first, second = torch.npu.Stream(), torch.npu.Stream()
    try:
        torch.npu.set_stream(first)
        assert torch.npu.current_stream() == first
        torch.npu.set_stream(second)
        assert torch.npu.current_stream() == second != first
    finally:
        torch.npu.set_stream(before)
    assert torch.npu.current_stream() == before


@pytest.mark.behaviour("stream",
                       "torch.accelerator switches the current stream")
@NEW_STREAM
def test_generic_switch(npu: Any) -> None:
    """torch.accelerator.set_stream changes the current stream's id."""
    before = torch.accelerator.current_stream()
    stream = torch.Stream(device="npu")
    try:
        torch.accelerator.set_stream(stream)
        found = torch.accelerator.current_stream()
        assert found.stream_id == stream.stream_id != before.stream_id
    finally:
        torch.accelerator.set_stream(before)


@pytest.mark.behaviour("stream", "synchronize ends a stream's work")
def test_synchronize(npu: Any, scaling: Any) -> None:
    """After synchronize the stream has no work, and results are there."""
    stream = torch.npu.Stream()
    assert stream.query() is True
    with stream:
        x = torch.ones(64).npu()
        for _ in range(20):
            x = scaling.scale(x, 2.0)
        stream.synchronize()
        assert stream.query() is True
        same(x, torch.full((64,), 2.0 ** 20))


@pytest.mark.behaviour("stream", "a stream prints its device")
def test_repr(npu: Any) -> None:
    """Both kinds of streams name the device."""
    found = repr(torch.Stream(device="npu"))
    assert "torch.Stream device_type=npu, device_index=0" in found
    assert repr(torch.npu.Stream()) == "<stream of npu:0>"
    assert repr(torch.npu.default_stream()) == "<default stream of npu:0>"


@pytest.mark.behaviour("stream", "a stream waits for another stream")
def test_wait_stream(npu: Any, scaling: Any) -> None:
    """Work after wait_stream sees the other stream's results."""
    first = behind(torch.npu.default_stream())
    second = torch.npu.Stream()
    with first:
        x = scaling.scale(torch.ones(64).npu(), 3.0)
    second.wait_stream(first)
    with second:
        y = scaling.scale(x, 5.0)
        torch.npu.record_stream(x, second)
        same(y, torch.full((64,), 15.0))


@pytest.mark.behaviour("stream", "a stream waits for another stream's event")
def test_wait_event(npu: Any, scaling: Any) -> None:
    """Work after wait_event sees what came before the event."""
    first = behind(torch.npu.default_stream())
    second = torch.npu.Stream()
    with first:
        x = scaling.scale(torch.ones(64).npu(), 3.0)
        event = first.record_event()
    second.wait_event(event)
    with second:
        y = scaling.scale(x, 7.0)
        torch.npu.record_stream(x, second)
        second.synchronize()
        assert event.query()
        same(y, torch.full((64,), 21.0))


@pytest.mark.behaviour("stream", "record_stream takes a torch.Stream")
@NEW_STREAM
def test_tensor_record_stream(npu: Any, scaling: Any) -> None:
    """Memory that another stream reads is not overwritten meanwhile."""
    before, stream = torch.accelerator.current_stream(), torch.Stream("npu")
    assert stream != before
    x = torch.ones(64).npu()
    with stream:
        y = scaling.scale(x, 5.0)
    x.record_stream(stream)
    del x
    torch.zeros(64).npu()
    stream.synchronize()
    same(y, torch.full((64,), 5.0))


# --- Events ------------------------------------------------------------------


@pytest.mark.behaviour("event", "a torch.Event has no index before it records")
def test_generic_event(npu: Any) -> None:
    """A new torch.Event has the device's type, no index, and the id 0."""
    for event in (torch.Event(device="npu"), torch.Event(device="npu:0"),
                  torch.Event()):
        assert event.device.type == "npu" and event.device.index is None
        assert event.event_id == 0 and event.query()


@pytest.mark.behaviour("event", "recorded torch.Events have ids of their own")
@pytest.mark.cxx(f"{GUARD}::record", raises=AssertionError)
def test_generic_record(npu: Any) -> None:
    """Each record gives the event a device index and an id."""
    stream = torch.Stream(device="npu:0")
    first, second = stream.record_event(), stream.record_event()
    assert first.device.index == second.device.index == 0
    assert 0 != first.event_id != second.event_id != 0


@pytest.mark.behaviour("event", "synchronize of a torch.Event waits")
@pytest.mark.cxx(f"{GUARD}::synchronizeEvent", raises=RuntimeError)
def test_generic_synchronize(npu: Any) -> None:
    """After synchronize the event is reached."""
    event = torch.Event(device="npu")
    event.record(torch.Stream(device="npu"))
    event.synchronize()
    assert event.query() and event.device.index == 0


@pytest.mark.behaviour("event", "torch.Events measure time")
@pytest.mark.cxx(f"{GUARD}::elapsedTime", raises=RuntimeError)
def test_generic_elapsed_time(npu: Any) -> None:
    """Two recorded events have milliseconds between them."""
    begin = torch.Event("npu", enable_timing=True)
    end = torch.Event("npu", enable_timing=True)
    stream = torch.Stream("npu")
    begin.record(stream)
    with stream:
        torch.ones(1000, device="npu").add(1)
    end.record()
    stream.synchronize()
    end.synchronize()
    assert 0 < begin.elapsed_time(end) < 60_000


@pytest.mark.behaviour("event", "torch.Events without timing refuse a time")
def test_generic_timing_disabled(npu: Any) -> None:
    """elapsed_time of events without timing is an error that says so."""
    begin, end = (torch.Event("npu", enable_timing=False) for _ in range(2))
    stream = torch.Stream("npu")
    begin.record(stream)
    end.record(stream)
    with pytest.raises(ValueError, match="enable_timing=True"):
        begin.elapsed_time(end)


@pytest.mark.behaviour("event", "torch.accelerator.synchronize waits")
def test_accelerator_synchronize(npu: Any, scaling: Any) -> None:
    """After torch.accelerator.synchronize no stream has work."""
    scaling.scale(torch.ones(64).npu(), 2.0)
    torch.accelerator.synchronize()
    assert torch.npu.current_stream().query()


@pytest.mark.behaviour("event", "synchronize waits for all work")
def test_device_synchronize(npu: Any, scaling: Any) -> None:
    """After torch.npu.synchronize no stream has work; the device stays."""
    x = torch.ones(64).npu()
    streams = [behind(torch.npu.default_stream()) for _ in range(3)]
    results = []
    for number, stream in enumerate(streams):
        with stream:
            results.append(scaling.scale(x, float(number)))
    torch.npu.synchronize()
    assert all(s.query() for s in streams)
    assert torch.npu.current_device() == 0
    for number, found in enumerate(results):
        same(found, torch.full((64,), float(number)))


@pytest.mark.behaviour("event", "an event is reached after it is recorded")
def test_query(npu: Any, scaling: Any) -> None:
    """query never waits; it is true before a record and after the work."""
    event = torch.npu.Event()
    assert event.query() is True
    x = torch.ones(64).npu()
    for _ in range(50):
        x = scaling.scale(x, 1.0)
    event.record()
    assert all(isinstance(event.query(), bool) for _ in range(4))
    event.synchronize()
    assert event.query() is True
    assert torch.npu.current_stream().query() is True


@pytest.mark.behaviour("event", "events around work measure its time")
def test_elapsed_time(npu: Any, scaling: Any) -> None:
    """More work between two events takes more time."""
    x = torch.ones(64).npu()
    begin, middle, end = (torch.npu.Event(enable_timing=True)
                          for _ in range(3))
    begin.record()
    x = scaling.scale(x, 1.0)
    middle.record()
    for _ in range(200):
        x = scaling.scale(x, 1.0)
    end.record()
    end.synchronize()
    whole = begin.elapsed_time(end)
    assert 0 < begin.elapsed_time(middle) < whole < 60_000
    assert whole == pytest.approx(
        begin.elapsed_time(middle) + middle.elapsed_time(end), abs=1e-3)


@pytest.mark.behaviour("event", "events without timing refuse a time")
def test_timing_disabled(npu: Any) -> None:
    """elapsed_time of events without timing is an error that says so."""
    begin, end = torch.npu.Event(), torch.npu.Event(enable_timing=False)
    begin.record()
    end.record()
    torch.npu.synchronize()
    with pytest.raises(ValueError, match="enable_timing=True"):
        begin.elapsed_time(end)


@pytest.mark.behaviour("event", "events between operations are all reached")
def test_interleaved(npu: Any, scaling: Any) -> None:
    """Events between a stream's operations are reached when it is idle."""
    stream = behind(torch.npu.default_stream())
    with stream:
        x, events = torch.ones(64).npu(), []
        for factor in (2.0, 3.0, 5.0):
            events.append(stream.record_event())
            x = scaling.scale(x, factor)
        stream.synchronize()
        assert len({id(e) for e in events}) == 3
        assert all(e.query() for e in events)
        same(x, torch.full((64,), 30.0))


@pytest.mark.behaviour("event", "several streams wait for one event")
def test_streams_wait_for_one_event(npu: Any, scaling: Any) -> None:
    """Each stream that waits sees the result before the event."""
    first = behind(torch.npu.default_stream())
    with first:
        x = scaling.scale(torch.ones(64).npu(), 4.0)
        event = first.record_event()
    others = [torch.npu.Stream() for _ in range(2)]
    assert len({first, *others}) == 3
    results = []
    for stream in others:
        stream.wait_event(event)
        with stream:
            results.append(scaling.scale(x, 2.0))
            torch.npu.record_stream(x, stream)
    torch.npu.synchronize()
    assert event.query()
    for found in results:
        same(found, torch.full((64,), 8.0))


@pytest.mark.behaviour("event", "an event can be recorded again")
def test_recorded_again(npu: Any, scaling: Any) -> None:
    """An event stands for its latest record."""
    first = behind(torch.npu.default_stream())
    second, event = torch.npu.Stream(), torch.npu.Event()
    with first:
        x = torch.ones(64).npu()
        for factor in (2.0, 3.0):
            x = scaling.scale(x, factor)
            event.record(first)
            first.synchronize()
            assert event.query()
        x = scaling.scale(x, 5.0)
        event.record(first)
    second.wait_event(event)
    with second:
        torch.npu.record_stream(x, second)
        same(scaling.scale(x, 1.0), torch.full((64,), 30.0))


@pytest.mark.behaviour("event", "many events of one stream are all reached")
def test_many_events(npu: Any) -> None:
    """Events that are made one after the other do not disturb each other."""
    stream = torch.npu.Stream()
    events = [stream.record_event() for _ in range(20)]
    stream.synchronize()
    assert [e.query() for e in events] == [True] * 20


@pytest.mark.behaviour("stream", "streams of the device have ids and types")
def test_ids(npu: Any) -> None:
    """The default stream's id is 0, each other one has its own."""
    default, first = torch.npu.default_stream(), torch.npu.Stream()
    assert default.stream_id == 0 != first.stream_id
    assert torch.npu.Stream().stream_id != first.stream_id
    with first:
        assert torch.npu.current_stream().stream_id == first.stream_id
    assert first.device_index == 0
    assert first.device_type == torch.Stream("npu").device_type
