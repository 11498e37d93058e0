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
