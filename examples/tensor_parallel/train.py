# SPDX-License-Identifier: Apache-2.0
"""A Llama-style block on several machines: tensor parallel, training included.

    torchrun --nproc-per-node 2 examples/tensor_parallel/train.py [--compile]

Every process holds its share of the heads and of the inner width. The losses
are compared with those of the whole block in one process.
"""

from __future__ import annotations

import argparse
import contextlib
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Replicate
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    parallelize_module,
)
from torch.utils._python_dispatch import TorchDispatchMode

from opgraft import distributed, ops

T = torch.Tensor
TOKENS, WIDTH, HEADS, INNER = 24, 64, 4, 128


class Linear(nn.Linear):
    def forward(self, x: T) -> T:
        return ops.linear(x, self.weight)


class Norm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x: T) -> T:
        return ops.rms_norm(x, self.weight)


class Attention(nn.Module):
    """`parts`: how many processes share the heads."""

    def __init__(self, parts: int) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = (
            Linear(WIDTH, WIDTH, bias=False) for _ in range(4))
        self.heads = HEADS // parts
        ends = torch.tensor([0, TOKENS], dtype=torch.int32)
        plan = ops.plan_attention(ends, ends, self.heads, self.heads,
                                  WIDTH // HEADS, causal=True, threads=1)
        self.register_buffer("plan", plan.plan, persistent=False)
        self.split_bytes = plan.split_bytes
        self.register_buffer("places", torch.arange(TOKENS).int(),
                             persistent=False)

    def forward(self, x: T) -> T:
        shape = (TOKENS, self.heads, WIDTH // HEADS)
        q, k, v = (f(x).view(shape) for f in (self.q, self.k, self.v))
        q, k = ops.apply_rope(q, k, self.places)
        y, _ = ops.batch_prefill_ragged(self.plan, q, k, v,
                                        split_bytes=self.split_bytes)
        return self.o(y.reshape(TOKENS, -1))


class FeedForward(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate = Linear(WIDTH, INNER, bias=False)
        self.up = Linear(WIDTH, INNER, bias=False)
        self.down = Linear(INNER, WIDTH, bias=False)

    def forward(self, x: T) -> T:
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Block(nn.Module):
    def __init__(self, parts: int = 1) -> None:
        super().__init__()
        self.attention, self.feed_forward = Attention(parts), FeedForward()
        self.norm1, self.norm2 = Norm(), Norm()

    def forward(self, x: T) -> T:
        x = x + self.attention(self.norm1(x))
        return x + self.feed_forward(self.norm2(x))


def share(block: Block, mesh: DeviceMesh) -> None:
    """By columns, then by rows: one sum behind each half of the block."""
    whole = PrepareModuleInput(input_layouts=(Replicate(),),
                               desired_input_layouts=(Replicate(),))
    columns, rows = ColwiseParallel(), RowwiseParallel()
    parallelize_module(block, mesh, {
        "attention": whole, "attention.q": columns, "attention.k": columns,
        "attention.v": columns, "attention.o": rows,
        "feed_forward": whole, "feed_forward.gate": columns,
        "feed_forward.up": columns, "feed_forward.down": rows,
    })


class Sums(TorchDispatchMode):
    """Counts the sums that are communicated, and their bytes."""

    def __init__(self) -> None:
        super().__init__()
        self.count = self.bytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (),
                           kwargs: Any = None) -> Any:
        if any(t is DTensor for t in types):
            return NotImplemented  # it comes again, with what it is made of
        if func.namespace == "_c10d_functional":
            is_sum = func is torch.ops._c10d_functional.all_reduce.default
            self.count += is_sum
            self.bytes += args[0].nbytes if is_sum else 0
        return func(*args, **(kwargs or {}))


def steps(block: Any, count: int) -> list[float]:
    torch.manual_seed(1)
    x, wanted = torch.randn(2, TOKENS, WIDTH)
    optimizer = torch.optim.SGD(block.parameters(), 0.1)
    losses = []
    for _ in range(count):
        optimizer.zero_grad()
        loss = F.mse_loss(block(x), wanted)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--steps", type=int, default=5)
    args = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    mesh = init_device_mesh("cpu", (world,))

    torch.manual_seed(0)
    whole, shared = Block(), Block(parts=world)
    shared.load_state_dict(whole.state_dict())
    share(shared, mesh)
    block = (torch.compile(shared, backend="opgraft") if args.compile
             else shared)
    wanted = steps(whole, args.steps)
    with contextlib.nullcontext() if args.compile else Sums() as seen:
        found = steps(block, args.steps)
    worst = max(abs(a - b) for a, b in zip(found, wanted))
    if rank == 0:
        for a, b in zip(found, wanted):
            print(f"loss {a:.6f} on {world} processes, {b:.6f} on one")
        if seen is not None:
            sent = seen.bytes * 2 * (world - 1) // world // args.steps
            print(f"{seen.count / args.steps:g} sums a step, {sent} bytes sent "
                  "by each process")
            assert sent == distributed.sums_bytes(world, TOKENS, WIDTH)
    dist.destroy_process_group()
    if worst > 1e-4:
        raise SystemExit(f"losses differ by {worst}")


if __name__ == "__main__":
    main()
