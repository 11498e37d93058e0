# SPDX-License-Identifier: Apache-2.0
"""Behaviours of the device: count, current one, properties, processes."""

from __future__ import annotations

import multiprocessing
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import on_npu
import pytest
import torch
from on_npu import MIB, alone, same


@pytest.mark.behaviour("device", "the accelerator counts the driver's devices")
def test_count(npu: Any) -> None:
    """torch.accelerator counts the devices and can select each of them."""
    assert torch.accelerator.device_count() == 1
    assert torch.npu.device_count() == npu.count == 1
    for index in range(npu.count):
        torch.accelerator.set_device_index(index)
        assert torch.accelerator.current_device_index() == index
        assert torch.npu.current_device() == index


@pytest.mark.behaviour("device",
                       "a device context restores the current device")
def test_context(npu: Any) -> None:
    """A block with a device leaves the current device, also by an error."""
    for index in (None, 0):
        with torch.accelerator.device_index(index):
            assert torch.accelerator.current_device_index() == 0
        with pytest.raises(ValueError, match="inside"):
            with torch.accelerator.device_index(index):
                raise ValueError("inside")
        assert torch.accelerator.current_device_index() == 0
    with pytest.raises(ValueError, match="inside"):
        with torch.npu.device(0):
            with torch.npu.device("npu:0"):
                raise ValueError("inside")
    assert torch.npu.current_device() == 0


@pytest.mark.behaviour("device", "torch.npu refuses an index out of range")
def test_index_out_of_range(npu: Any) -> None:
    """A device index that does not exist is an error."""
    with pytest.raises(RuntimeError, match="no device npu:2, expected npu:0"):
        torch.npu.set_device(2)
    with pytest.raises(RuntimeError, match="no device npu:2, expected npu:0"):
        with torch.npu.device(2):
            pass
    assert torch.npu.current_device() == 0


@pytest.mark.behaviour("device",
                       "torch.accelerator refuses an index out of range")
def test_accelerator_index_out_of_range(npu: Any) -> None:
    """torch.accelerator refuses a device index that does not exist."""
    with pytest.raises(RuntimeError, match="out of range|no device"):
        torch.accelerator.set_device_index(2)


@pytest.mark.behaviour("device", "the accelerator lists the types it supports")
def test_capability(npu: Any) -> None:
    """get_device_capability gives the set of supported dtypes."""
    found = torch.accelerator.get_device_capability("npu:0")
    wanted = {torch.float32, torch.float16, torch.bfloat16, torch.int64,
              torch.bool, torch.complex64}
    assert wanted <= found["supported_dtypes"]


@pytest.mark.behaviour("device", "a new tensor is on the device named")
def test_a_tensor_has_its_device(npu: Any) -> None:
    """A tensor's device has the type and the index that the caller named."""
    for device in ("npu", "npu:0", torch.device("npu", 0)):
        x = torch.randn(2, 3, device=device)
        assert (x.device.type, x.device.index) == ("npu", 0)
        assert x.get_device() == 0 and not x.is_cpu


@pytest.mark.behaviour("device", "a device prints its name and index")
def test_names(npu: Any) -> None:
    """torch.device parses and prints the device's name."""
    device = torch.device("npu:0")
    assert (device.type, device.index) == ("npu", 0)
    assert str(device) == "npu:0" and str(torch.device("npu")) == "npu"
    assert "simulated NPU" in npu.model and npu.memory_bytes == 256 * MIB


@pytest.mark.behaviour("device", "properties give name and total memory")
def test_properties(npu: Any) -> None:
    """torch.npu tells the device's name and the size of its memory."""
    found = torch.npu.get_device_properties(0)
    assert found.total_memory == 256 * MIB
    assert found.name == torch.npu.get_device_name(0) == npu.model


@pytest.mark.behaviour("device", "the accelerator tells free and total memory")
def test_memory_info(npu: Any) -> None:
    """Free memory falls by what is allocated; the total stays."""
    torch.npu.empty_cache()
    free, total = torch.accelerator.get_memory_info()
    x = torch.empty(MIB, device="npu")
    left, same_total = torch.accelerator.get_memory_info()
    assert total == same_total == 256 * MIB
    assert free - left == x.nbytes == 4 * MIB


@pytest.mark.behaviour("device", "operations keep the current device")
def test_operations_keep_the_current_device(npu: Any) -> None:
    """Results are on the current device, which operations do not change."""
    before = torch.accelerator.current_device_index()
    x = torch.arange(6.0, device="npu").reshape(2, 3)
    results = [x + x, (x + x).sum(), x @ x.t()]
    assert [r.device.index for r in results] == [before] * 3
    assert results[1].item() == 30
    same(results[2], torch.tensor([[5.0, 14], [14, 50]]))
    assert torch.accelerator.current_device_index() == before


@pytest.mark.behaviour("device", "threads use the device at once")
def test_threads(npu: Any) -> None:
    """Four threads that work at once get the CPU's numbers."""
    barrier = threading.Barrier(4)

    def work(number: int) -> None:
        barrier.wait()
        torch.accelerator.set_device_index(0)
        wanted = torch.full((8, 8), 8.0 * number * number)
        for _ in range(50):
            x = torch.full((8, 8), float(number), device="npu")
            y = x @ x
            assert x.device.index == y.device.index == 0
            same(y, wanted)
            assert torch.accelerator.current_device_index() == 0

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(1, 5)))


@pytest.mark.behaviour("device", "the device says that it is initialised")
def test_is_initialized(npu: Any) -> None:
    """After load_device the module is initialised and has a device."""
    assert torch.npu.is_initialized() and torch.npu.is_available()
    assert torch.accelerator.is_available()
    assert torch.accelerator.current_accelerator() == torch.device("npu")


@pytest.mark.behaviour("device", "init may be called again")
def test_init(npu: Any) -> None:
    """torch.npu.init does nothing where the device is initialised."""
    torch.npu.init()
    torch.npu.init()
    assert torch.npu.is_initialized()


@pytest.mark.behaviour("device", "a forked child is told to spawn")
def test_fork(npu_path: Path) -> None:
    """A child of fork gets an error that names the start method."""
    text = ("import multiprocessing\n"
            "def child(queue):\n"
            "    try:\n"
            "        torch.ones(2, device='npu')\n"
            "    except RuntimeError as error:\n"
            "        queue.put(str(error))\n"
            "context = multiprocessing.get_context('fork')\n"
            "queue = context.Queue()\n"
            "process = context.Process(target=child, args=(queue,))\n"
            "process.start()\n"
            "print(queue.get(timeout=60))\n"
            "process.join()\n"
            "print(process.exitcode, torch.ones(2).npu().sum().item())\n")
    *said, last = alone(npu_path, text).splitlines()
    assert "in the process that uses it" in " ".join(said)
    assert last == "0 2.0"


@pytest.mark.behaviour("device", "a spawned process uses the device")
def test_spawn(npu_path: Path) -> None:
    """A spawned process loads the device and computes on it."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=on_npu.multiply, daemon=True,
                              args=(str(npu_path), there))
    process.start()
    assert here.poll(100), "no answer"
    assert here.recv() == ("npu:0", [[2.0, 3.0], [6.0, 11.0]])
    process.join()
    assert process.exitcode == 0


@pytest.mark.behaviour("device", "the device works after an error")
def test_after_an_error(npu: Any) -> None:
    """An operation that fails leaves the device usable."""
    x, y = torch.ones(5, 5).npu(), torch.ones(3, 3).npu()
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        torch.matmul(x, y)
    assert torch.accelerator.current_device_index() == 0
    same(torch.matmul(x, x), torch.full((5, 5), 5.0))
