# SPDX-License-Identifier: Apache-2.0
"""Comparisons on the device, and programs in processes of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import torch

MIB = 1 << 20


def same(
    found: torch.Tensor, wanted: torch.Tensor, tolerance: float = 0
) -> None:
    """The tensor is on the device and has the values of the CPU's tensor."""
    assert found.device == torch.device("npu:0")
    torch.testing.assert_close(found.cpu(), wanted, rtol=tolerance,
                               atol=tolerance)


def alone(npu_path: Path, text: str) -> str:
    """What `text` prints in another process, which has the device loaded."""
    code = ("import opgraft, torch\n"
            f"device = opgraft.load_device({str(npu_path)!r})\n" + text)
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code],
                          capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, (done.returncode, done.stderr)
    return done.stdout


def multiply(npu_path: str, connection: Any) -> None:
    """In a spawned process: sends a product that the device gave."""
    import opgraft

    opgraft.load_device(npu_path)
    x = torch.arange(4.0).reshape(2, 2).npu()
    connection.send((str(x.device), (x @ x).cpu().tolist()))


def double(tensor: torch.Tensor, connection: Any) -> None:
    """In a spawned process that loads nothing by itself: sends 2 * tensor."""
    connection.send((str(tensor.device), (tensor * 2).cpu().tolist()))


def receive(npu_path: str, connection: Any) -> None:
    """In a spawned process: answers with what it reads of a tensor."""
    import opgraft

    opgraft.load_device(npu_path)
    tensor = connection.recv()
    connection.send("received")
    connection.recv()  # the sender has deleted its tensor
    connection.send((str(tensor.device), tensor.cpu().tolist()))


def reduce_all(
    npu_path: str, rendezvous: str, rank: int, connection: Any
) -> None:
    """In a spawned process of two: sends the sum over both, or the error."""
    import opgraft

    opgraft.load_device(npu_path)
    try:
        torch.distributed.init_process_group(  # each device's own back end
            init_method=f"file://{rendezvous}", rank=rank, world_size=2)
        x = torch.full((3,), float(rank + 1)).npu()
        torch.distributed.all_reduce(x)
        connection.send((str(x.device), x.cpu().tolist()))
        torch.distributed.destroy_process_group()
    except Exception as error:
        connection.send((type(error).__name__, str(error)))


def numbers(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float32).npu()


def collectives(
    npu_path: str, rendezvous: str, rank: int, connection: Any
) -> None:
    """In a spawned process of two: sends its rank and the results."""
    import opgraft

    opgraft.load_device(npu_path)
    torch.distributed.init_process_group(
        init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    connection.send((rank, {
        **_tensors(rank), **_exchange(rank), "DDP": _gradient(rank)}))
    torch.distributed.destroy_process_group()


def _tensors(rank: int) -> dict[str, Any]:
    dist = torch.distributed
    mine = numbers(rank)
    dist.broadcast(mine, 1)
    parts = [numbers(-1), numbers(-1)]
    dist.all_gather(parts, numbers(rank))
    whole, part, turned = numbers(-1, -1), numbers(-1), numbers(-1, -1)
    dist.all_gather_into_tensor(whole, numbers(rank))
    dist.reduce_scatter_tensor(part, numbers(1, 2))
    dist.all_to_all_single(turned, numbers(2 * rank, 2 * rank + 1))
    given = numbers(-1)
    dist.scatter(given, [numbers(7), numbers(8)] if rank == 0 else None)
    return {"broadcast": mine.tolist(),
            "all_gather": [t.tolist() for t in parts],
            "all_gather_into_tensor": whole.tolist(),
            "reduce_scatter_tensor": part.tolist(),
            "all_to_all_single": turned.tolist(), "scatter": given.tolist()}


def _exchange(rank: int) -> dict[str, Any]:
    from torch.distributed import _functional_collectives as functional

    dist = torch.distributed
    found = numbers(-1)
    for work in (dist.isend(numbers(rank), 1 - rank),
                 dist.irecv(found, 1 - rank)):
        work.wait()
    on_cpu = torch.tensor([rank + 1.0])
    dist.all_reduce(on_cpu, async_op=True).wait()
    objects = [None, None]
    dist.all_gather_object(objects, rank)
    dist.barrier()
    total = functional.all_reduce(numbers(rank + 1), "sum", dist.group.WORLD)
    return {"exchange": found.tolist(), "on the CPU": on_cpu.tolist(),
            "objects": objects, "functional": total.tolist()}


def _gradient(rank: int) -> Any:
    module = torch.nn.parallel.DistributedDataParallel(
        torch.nn.Linear(2, 1).npu())
    module(numbers(rank, 1).reshape(1, 2)).sum().backward()
    return module.module.weight.grad.tolist()
