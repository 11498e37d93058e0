# SPDX-License-Identifier: Apache-2.0
"""Streams and events of a device. Delays are random and the race detector is
on: an order that is missing is reported, one that is there lets nothing pass."""

from __future__ import annotations

import gc
import threading
from typing import Any, Callable

import pytest
import torch

ROUNDS = 20


@pytest.fixture(scope="module")
def scaling(device: Any, build: Callable[..., Any]) -> Any:
    import opgraft

    return opgraft.load(build("tests/python/device/scale.c"))


def other_stream() -> Any:
    """A stream that begins behind all that was done."""
    stream = torch.npu.Stream()
    stream.wait_stream(torch.npu.default_stream())
    return stream


def test_work_goes_to_the_current_stream(npu: Any, scaling: Any) -> None:
    x = torch.arange(8.0).npu()
    for _ in range(ROUNDS):
        stream = other_stream()
        with torch.npu.stream(stream):
            assert torch.npu.current_stream() == stream
            y = scaling.scale(scaling.scale(x, 2.0), 3.0)
        assert torch.npu.current_stream() == torch.npu.default_stream()
        torch.npu.current_stream().wait_stream(stream)
        z = scaling.scale(y, 1.0)
        torch.npu.record_stream(y, torch.npu.default_stream())
        assert torch.equal(z.cpu(), torch.arange(8.0) * 6)


def test_a_missing_wait_is_a_race(npu: Any, scaling: Any) -> None:
    x = torch.arange(8.0).npu()
    with other_stream() as stream:
        y = scaling.scale(x, 2.0)
    z = scaling.scale(y, 3.0)
    torch.npu.synchronize()
    reports = npu.reports()
    assert any(r.startswith("race: scale") for r in reports), reports
    torch.npu.record_stream(y, torch.npu.default_stream())
    stream.synchronize()
    assert z.shape == y.shape


def test_a_fallback_waits_for_its_stream_alone(npu: Any) -> None:
    with other_stream():
        x = torch.randn(16).npu()
        y = torch.sort(x * 2).values
        assert torch.equal(y.cpu(), torch.sort(x.cpu() * 2).values)


def test_memory_stays_with_its_stream(npu: Any) -> None:
    torch.npu.empty_cache()
    size = 3 << 12
    with other_stream() as stream:
        first = torch.empty(size, device="npu")
    address = first.data_ptr()
    del first
    outside = torch.empty(size, device="npu")
    assert outside.data_ptr() != address
    with stream:
        again = torch.empty(size, device="npu")
    assert again.data_ptr() == address


def test_recorded_memory_waits_for_its_users(npu: Any, scaling: Any) -> None:
    """Its next owner writes what another stream may still read."""
    for _ in range(ROUNDS):
        x = torch.ones(64).npu()
        stream = other_stream()
        with stream:
            y = scaling.scale(x, 5.0)
        torch.npu.record_stream(x, stream)
        address = x.data_ptr()
        del x
        taken = torch.zeros(64).npu()
        assert taken.data_ptr() == address
        stream.synchronize()
        with stream:
            assert torch.equal(y.cpu(), torch.full((64,), 5.0))


def test_without_a_record_it_is_a_race(npu: Any, scaling: Any) -> None:
    x = torch.ones(64).npu()
    stream = other_stream()
    with stream:
        y = scaling.scale(x, 5.0)
    del x
    torch.zeros(64).npu()
    stream.synchronize()
    assert any(r.startswith("race: ") for r in npu.reports())
    assert y.shape == (64,)


def test_too_many_users_are_refused(npu: Any) -> None:
    x = torch.ones(4).npu()
    streams = [torch.npu.Stream() for _ in range(9)]
    for stream in streams[:8]:
        torch.npu.record_stream(x, stream)
    torch.npu.record_stream(x, streams[0])
    torch.npu.record_stream(x, torch.npu.default_stream())
    with pytest.raises(RuntimeError, match="more than 8 streams besides"):
        torch.npu.record_stream(x, streams[8])


def test_a_stream_ends_before_its_memory(npu: Any, scaling: Any) -> None:
    x = torch.ones(64).npu()
    stream = other_stream()
    with stream:
        y = scaling.scale(x, 5.0)
    torch.npu.record_stream(x, stream)
    del stream
    gc.collect()
    assert torch.equal(y.cpu(), torch.full((64,), 5.0))
    del x, y
    torch.npu.empty_cache()
    assert npu.stats()["memory"]["kept_bytes"] == 0


def test_backward_uses_the_stream_that_is_current_where_it_is_called(
    npu: Any, scaling: Any
) -> None:
    x = torch.arange(8.0).npu().requires_grad_()
    for _ in range(ROUNDS):
        x.grad = None
        with other_stream() as stream:
            y = scaling.scale(scaling.scale(x, 2.0), 3.0)
            y.backward(torch.ones(8).npu())
            assert torch.equal(x.grad.cpu(), torch.full((8,), 6.0))
        stream.synchronize()


def test_threads_have_their_own_current_stream(npu: Any, scaling: Any) -> None:
    found: list[Any] = []

    def work(number: float) -> None:
        before = torch.npu.current_stream()
        with torch.npu.Stream() as stream:
            x = torch.full((8,), number).npu()
            for _ in range(ROUNDS):
                x = scaling.scale(x, -1.0 if number < 0 else 1.0)
            found.append((before, x.cpu()[0].item(), number))
            stream.synchronize()

    with other_stream():
        threads = [threading.Thread(target=work, args=(n,))
                   for n in (1.0, 2.0, 3.0)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    assert len(found) == 3
    for before, value, number in found:
        assert before == torch.npu.default_stream() and value == number


def test_events(npu: Any, scaling: Any) -> None:
    x = torch.ones(64).npu()
    begin = torch.npu.Event(enable_timing=True)
    end = torch.npu.Event(enable_timing=True)
    begin.record()
    for _ in range(ROUNDS):
        x = scaling.scale(x, 1.0)
    end.record()
    end.synchronize()
    assert begin.query() and end.query()
    assert 0 < begin.elapsed_time(end) < 60_000
    assert torch.npu.current_stream().query()
    stream = torch.npu.Stream()
    stream.wait_event(end)
    with stream:
        assert scaling.scale(x, 2.0).cpu()[0] == 2
    torch.npu.Event().wait()  # never recorded: at once


def test_synchronize_waits_for_every_stream(npu: Any, scaling: Any) -> None:
    x, outs = torch.ones(64).npu(), []
    streams = [other_stream() for _ in range(4)]
    for stream in streams:
        with stream:
            for _ in range(ROUNDS):
                outs.append(scaling.scale(x, 1.0))
    torch.npu.synchronize()
    assert all(stream.query() for stream in streams)
    with streams[0]:
        outs.append(scaling.scale(x, -1.0))
    with pytest.raises(RuntimeError, match="scale: a is -1"):
        torch.npu.synchronize()


def test_a_trim_waits_for_every_stream(npu: Any, scaling: Any) -> None:
    x = torch.ones(64).npu()
    with other_stream():
        for _ in range(ROUNDS):
            scaling.scale(x, 1.0)
    torch.npu.empty_cache()


def test_refusals(npu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RuntimeError, match=r"there is no device npu:7"):
        torch.npu.Stream(7)
    with pytest.raises(ValueError, match="enable_timing=True"):
        torch.npu.Event().elapsed_time(torch.npu.Event())
    begin, end = (torch.npu.Event(enable_timing=True) for _ in range(2))
    with pytest.raises(ValueError, match="the first event was never recorded"):
        begin.elapsed_time(end)
    monkeypatch.setitem(npu.lacks, "event_create", "all work uses one stream")
    with pytest.raises(RuntimeError, match="no event_create: all work uses one"):
        torch.npu.Stream()
    monkeypatch.setitem(npu.lacks, "event_elapsed", "no times are measured")
    with pytest.raises(RuntimeError, match="no event_elapsed"):
        torch.npu.Event(enable_timing=True)
