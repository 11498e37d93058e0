# SPDX-License-Identifier: Apache-2.0
"""Behaviours of the profiler: rows of the host, ranges, rows of the device."""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path
from typing import Any, Callable

import pytest
import torch
from torch.profiler import record_function

T = torch.Tensor


def profiled(work: Callable[[], Any], **options: Any) -> Any:
    """The profile of `work`, with the host's activities and the device's."""
    activity = torch.profiler.ProfilerActivity
    with torch.profiler.profile(activities=[activity.CPU, activity.PrivateUse1],
                                **options) as found:
        work()
    return found


def names(found: Any) -> Counter[str]:
    return Counter(event.name for event in found.events())


def ones(*shape: int) -> T:
    return torch.ones(*shape, device="npu")


def model() -> torch.nn.Module:
    return torch.nn.Sequential(
        torch.nn.Linear(10, 20), torch.nn.ReLU(),
        torch.nn.Linear(20, 10)).npu()


# --- Rows of the host --------------------------------------------------------


@pytest.mark.behaviour("profiler", "operators on the device have rows")
def test_operators(npu: Any) -> None:
    """Sum and product have a row for each call."""
    x = ones(4, 4)
    found = names(profiled(lambda: (x + x, x * x, torch.abs(x))))
    assert {"aten::add", "aten::mul", "aten::abs"} <= set(found)
    assert found["aten::sub"] == 0


@pytest.mark.behaviour("profiler", "named ranges have rows, also nested")
def test_ranges(npu: Any) -> None:
    """Each range has one row, and an inner one lies in the outer one."""
    def work() -> None:
        with record_function("outer"):
            x = ones(4, 4)
            with record_function("inner 1"):
                x = x + x
            with record_function("inner 2"):
                x = x * x

    found = profiled(work)
    ranges = {event.name: event.time_range for event in found.events()
              if event.name.startswith(("outer", "inner"))}
    assert set(ranges) == {"outer", "inner 1", "inner 2"}
    outer, first, second = (ranges[n] for n in ("outer", "inner 1", "inner 2"))
    assert outer.start <= first.start <= first.end <= second.start
    assert second.end <= outer.end


@pytest.mark.behaviour("profiler", "work on several streams has rows")
def test_streams(npu: Any, scaling: Any) -> None:
    """Ranges on two streams have their rows, without a stream before."""
    x = ones(8)

    def work() -> None:
        for number in (1, 2):
            with record_function(f"stream {number}"):
                with torch.npu.Stream() as stream:
                    stream.wait_stream(torch.npu.default_stream())
                    scaling.scale(x, 2.0)
                    torch.npu.record_stream(x, stream)

    found = names(profiled(work))
    assert found["stream 1"] == found["stream 2"] == 1


@pytest.mark.behaviour("profiler", "events work under the profiler")
def test_events(npu: Any) -> None:
    """An event is recorded and awaited inside a profile."""
    def work() -> None:
        event = torch.npu.Event(enable_timing=True)
        with torch.npu.Stream() as stream:
            x = ones(4)
            event.record(stream)
            x + x
        event.synchronize()
        assert event.query()
        stream.synchronize()

    assert names(profiled(work))["aten::add"] > 0


@pytest.mark.behaviour("profiler", "averages count calls")
def test_averages(npu: Any) -> None:
    """Ten ranges are one row with ten calls and their time."""
    def work() -> None:
        for _ in range(10):
            with record_function("step"):
                ones(4).add(1)

    [row] = [row for row in profiled(work).key_averages()
             if row.key == "step"]
    assert row.count == 10
    assert row.cpu_time_total > 0
    assert row.cpu_time_total >= row.self_cpu_time_total


@pytest.mark.behaviour("profiler", "the table names operators")
def test_table(npu: Any) -> None:
    """The printed table has rows of the model's operators."""
    net, x = model(), ones(32, 10)
    table = profiled(lambda: net(x)).key_averages().table(
        sort_by="cpu_time_total", row_limit=20)
    assert "aten::linear" in table and "aten::relu" in table
    assert "Self CPU time total" in table


@pytest.mark.behaviour("profiler", "a trace is written as JSON")
def test_trace(npu: Any, tmp_path: Path) -> None:
    """The Chrome trace has an event for the operator."""
    x, path = ones(4, 4), tmp_path / "trace.json"
    profiled(lambda: x + x).export_chrome_trace(str(path))
    events = json.loads(path.read_text())["traceEvents"]
    assert any(event.get("name") == "aten::add" for event in events)


@pytest.mark.behaviour("profiler", "rows have the shapes of arguments")
def test_shapes(npu: Any) -> None:
    """record_shapes gives sizes of tensors of the device."""
    x, y = ones(2, 3), ones(3, 4)
    found = profiled(lambda: x @ y, record_shapes=True)
    rows = found.key_averages(group_by_input_shape=True)
    shapes = {str(row.input_shapes) for row in rows if row.key == "aten::mm"}
    assert any("[2, 3], [3, 4]" in shape for shape in shapes), shapes


@pytest.mark.behaviour("profiler", "rows have times")
def test_times(npu: Any) -> None:
    """Products take time of the host."""
    def work() -> None:
        x = ones(16, 16)
        for _ in range(10):
            x = x @ x

    rows = [event for event in profiled(work).events()
            if event.name == "aten::mm"]
    assert len(rows) >= 10 and all(r.cpu_time_total > 0 for r in rows)


@pytest.mark.behaviour("profiler", "a backward has rows")
def test_backward(npu: Any) -> None:
    """Rows of the forward's operators and of the backward's nodes."""
    x = ones(4, 4).requires_grad_()
    found = names(profiled(lambda: (x @ x).sum().backward()))
    assert found["aten::mm"] >= 3
    assert any("MmBackward0" in name for name in found)


@pytest.mark.behaviour("profiler", "an empty profile has no operator")
def test_empty(npu: Any) -> None:
    """Nothing ran, and nothing is reported."""
    found = profiled(lambda: None)
    assert not any(n.startswith("aten::") for n in names(found))


@pytest.mark.behaviour("profiler", "an exception ends the profile cleanly")
def test_exception(npu: Any) -> None:
    """Its rows are there, and the next profile works."""
    activity = torch.profiler.ProfilerActivity
    found = torch.profiler.profile(activities=[activity.CPU, activity.PrivateUse1])
    with pytest.raises(RuntimeError, match="inside"):
        with found:
            ones(4).add(1)
            raise RuntimeError("inside")
    assert names(found)["aten::add"] > 0
    assert names(profiled(lambda: ones(4).mul(1)))["aten::mul"] > 0


@pytest.mark.behaviour("profiler", "many ranges have a row each")
def test_many_ranges(npu: Any) -> None:
    """A hundred ranges."""
    def work() -> None:
        x = ones(4)
        for number in range(100):
            with record_function(f"range {number}"):
                x = x + 1

    found = names(profiled(work))
    assert all(found[f"range {number}"] == 1 for number in range(100))


@pytest.mark.behaviour("profiler", "a training step has rows of its stages")
def test_training_step(npu: Any) -> None:
    """Forward, loss, backward and optimizer, five batches."""
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    x, y = ones(8, 10), torch.zeros(8, 10, device="npu")

    def work() -> None:
        for _ in range(5):
            with record_function("forward"):
                output = net(x)
            with record_function("loss"):
                loss = torch.nn.functional.mse_loss(output, y)
            with record_function("backward"):
                loss.backward()
            with record_function("optimizer step"):
                optimizer.step()
                optimizer.zero_grad()

    found = names(profiled(work, record_shapes=True))
    for stage in ("forward", "loss", "backward", "optimizer step"):
        assert found[stage] == 5
    assert found["aten::linear"] == 10
    assert found["aten::mse_loss"] >= 5


@pytest.mark.behaviour("profiler", "inference has no rows of a backward")
def test_inference(npu: Any) -> None:
    """Without gradients the model has rows of its forward alone."""
    net, x = model().eval(), ones(16, 10)

    def work() -> None:
        with torch.no_grad():
            for _ in range(5):
                net(x)

    found = names(profiled(work))
    assert found["aten::linear"] == 10
    assert not any("backward" in name.lower() for name in found)


@pytest.mark.behaviour("profiler", "copies to and from the device have rows")
def test_transfers(npu: Any) -> None:
    """Both directions are rows inside their ranges."""
    def work() -> None:
        with record_function("there"):
            x = torch.ones(4).to("npu")
        with record_function("back"):
            x.cpu()

    found = profiled(work)
    copies = [e.time_range.start for e in found.events()
              if e.name == "aten::copy_"]
    for name in ("there", "back"):
        [span] = [e.time_range for e in found.events() if e.name == name]
        assert any(span.start <= at <= span.end for at in copies)


@pytest.mark.behaviour("profiler", "an operator of a module has a row")
def test_custom_operator(npu: Any, scaling: Any) -> None:
    """A kernel of the device has its operator's row."""
    x = ones(8)
    found = names(profiled(lambda: scaling.scale(x, 2.0)))
    assert any("scale" in name for name in found), found


@pytest.mark.behaviour("profiler", "the profiler costs little")
def test_overhead(npu: Any) -> None:
    """A hundred forwards under the profiler end within a minute."""
    net, x = model(), ones(32, 10)
    begin = time.monotonic()
    found = names(profiled(lambda: [net(x) for _ in range(100)]))
    assert time.monotonic() - begin < 60
    assert found["aten::linear"] == 200


# --- Rows of the device ------------------------------------------------------


@pytest.mark.behaviour("profiler", "autograd's profiler times the device")
@pytest.mark.cxx("torch::profiler::impl::ProfilerStubs",
                 raises=AssertionError)
def test_use_device(npu: Any, capfd: pytest.CaptureFixture[str]) -> None:
    """profile(use_device="npu") has device times, and no error on stderr."""
    x = ones(64, 64)
    with torch.autograd.profiler.profile(use_device="npu") as found:
        x @ x
    assert "not enabled" not in capfd.readouterr().err
    rows = [e for e in found.function_events if e.name == "aten::mm"]
    assert rows and all(row.device_time_total > 0 for row in rows)


@pytest.mark.behaviour("profiler", "kernels have rows of the device")
@pytest.mark.xfail(
    strict=True, raises=AssertionError,
    reason="PyTorch: libkineto::IActivityProfiler, registered by "
           "libkineto::api().registerProfilerFactory, has no Python form")
def test_device_rows(npu: Any, scaling: Any) -> None:
    """A launch on the device is an event whose device type is NPU."""
    x = ones(8)
    found = profiled(lambda: (scaling.scale(x, 2.0), torch.npu.synchronize()))
    kind = torch._C._autograd.DeviceType.PrivateUse1
    assert [e for e in found.events() if e.device_type == kind]
