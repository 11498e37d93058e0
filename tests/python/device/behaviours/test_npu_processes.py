# SPDX-License-Identifier: Apache-2.0
"""Behaviours of tensors that pass between processes, and of process groups."""

from __future__ import annotations

import multiprocessing
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

import on_npu
import pytest
import torch
import torch.multiprocessing  # registers reductions for ForkingPickler
from on_npu import alone, same

# --- Tensors between processes -----------------------------------------------


def passed(tensor: Any) -> Any:
    """The tensor as another process would get it."""
    return ForkingPickler.loads(ForkingPickler.dumps(tensor))


@pytest.mark.behaviour("ipc", "a tensor passes to another process")
def test_tensor_to_another_process(npu: Any, npu_path: Path) -> None:
    """The other process reads the values, also after the sender's deletion."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    x = torch.arange(1.0, 5).npu()
    here.send(x)
    process = context.Process(target=on_npu.receive, daemon=True,
                              args=(str(npu_path), there))
    process.start()
    assert here.poll(100), "no answer"
    assert here.recv() == "received"
    del x
    here.send("deleted")
    assert here.poll(100), "no answer"
    assert here.recv() == ("npu:0", [1.0, 2.0, 3.0, 4.0])
    process.join()
    assert process.exitcode == 0


@pytest.mark.behaviour("ipc", "a slice passes with its own values")
def test_slice(npu: Any) -> None:
    """The storage offset is kept."""
    found = passed(torch.arange(8.0).npu()[4:])
    same(found, torch.tensor([4.0, 5, 6, 7]))
    assert found.storage_offset() == 4


@pytest.mark.behaviour("ipc", "a tensor with gaps passes with its strides")
def test_strided(npu: Any) -> None:
    """Size, stride and values are kept."""
    found = passed(torch.arange(8.0).npu()[::2])
    same(found, torch.tensor([0.0, 2, 4, 6]))
    assert found.shape == (4,) and found.stride() == (2,)


@pytest.mark.behaviour("ipc", "views pass with the memory that they share")
def test_views(npu: Any) -> None:
    """In one message a view stays a view; the sender's tensor is another."""
    x = torch.arange(4.0).npu()
    whole, part = passed([x, x[1:]])
    whole.zero_()
    same(part, torch.zeros(3))
    same(x, torch.arange(4.0))
    assert passed(torch.ones(2)).is_cpu
    assert passed(torch.empty(0).npu()).device == torch.device("npu:0")


@pytest.mark.behaviour("ipc", "a tensor is an argument of a new process")
def test_argument_of_a_process(npu: Any) -> None:
    """A spawned process loads the driver of the tensor that it gets."""
    context = torch.multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=on_npu.double, daemon=True,
                              args=(torch.arange(3.0).npu(), there))
    process.start()
    assert here.poll(100), "no answer"
    assert here.recv() == ("npu:0", [0.0, 2.0, 4.0])
    process.join()
    assert process.exitcode == 0


# --- Process groups ----------------------------------------------------------

GROUP = '''
import torch.distributed as dist

class Works(dist.ProcessGroup):
    """Sums with itself alone, by a copy on the CPU."""

    def getBackendName(self):
        return "copies"

    def allreduce(self, tensors, options=None):
        for tensor in tensors:
            tensor.copy_(tensor.cpu() * self.size())
        future = torch.futures.Future()
        future.set_result(tensors)
        return torch._C._distributed_c10d._create_work_from_future(future)

def create(store, rank, size, timeout):
    return Works(rank, size)

dist.Backend.register_backend("copies", create, devices=["npu"])
print("copies" in dist.Backend.backend_list,
      dist.Backend.default_device_backend_map["npu"])
dist.init_process_group("copies", store=dist.HashStore(), rank=0, world_size=1)
print(dist.is_initialized(), dist.get_backend(), dist.get_rank(),
      dist.get_world_size())
x = torch.arange(3.0).npu()
work = dist.all_reduce(x, async_op=True)
work.wait()
print(work.is_completed(), x.tolist(), x.device)
dist.destroy_process_group()
'''


@pytest.mark.behaviour("distributed", "a process group serves the device")
def test_process_group(npu_path: Path) -> None:
    """A group that is registered for the device gets its tensors."""
    assert alone(npu_path, GROUP).splitlines() == [
        "True copies", "True copies 0 1", "True [0.0, 1.0, 2.0] npu:0"]


def asked_of_two(
    function: Any, npu_path: Path, tmp_path: Path
) -> list[Any]:
    """What two spawned processes of a group send, in any order."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe(duplex=False)
    processes = [context.Process(
        target=function, daemon=True,
        args=(str(npu_path), str(tmp_path / "rendezvous"), rank, there))
        for rank in range(2)]
    for process in processes:
        process.start()
    answers = []
    for _ in processes:
        assert here.poll(100), "no answer"
        answers.append(here.recv())
    for process in processes:
        process.join(60)
    return answers


@pytest.mark.behaviour("distributed", "processes sum a tensor of the device")
def test_all_reduce(npu_path: Path, tmp_path: Path) -> None:
    """all_reduce over two processes gives both the sum."""
    answers = asked_of_two(on_npu.reduce_all, npu_path, tmp_path)
    assert answers == [("npu:0", [3.0, 3.0, 3.0])] * 2


@pytest.mark.full
@pytest.mark.behaviour("distributed", "all collectives take device tensors")
def test_collectives(npu_path: Path, tmp_path: Path) -> None:
    """Results of two processes, and the gradients of a DDP module."""
    answers = asked_of_two(on_npu.collectives, npu_path, tmp_path)
    for rank, found in sorted(answers):
        assert found == {
            "broadcast": [1.0], "all_gather": [[0.0], [1.0]],
            "all_gather_into_tensor": [0.0, 1.0],
            "reduce_scatter_tensor": [2.0 * (rank + 1)],
            "all_to_all_single": [float(rank), rank + 2.0],
            "scatter": [rank + 7.0], "exchange": [1.0 - rank],
            "on the CPU": [3.0], "objects": [0, 1], "functional": [3.0],
            "DDP": [[0.5, 1.0]]}
