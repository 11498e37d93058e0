# SPDX-License-Identifier: Apache-2.0
"""A Llama-style block on several machines: tensor parallel, training included.

    torchrun --nproc-per-node 2 examples/tensor_parallel/train.py [--compile]

Every process holds its share of the heads and of the inner width. The losses
are compared with those of the whole block in one process.
"""

from __future__ import annotations

import argparse
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import Replicate
from torch.distributed.tensor.debug import CommDebugMode
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    parallelize_module,
)

from opgraft import ops

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


def sums_bytes(ranks: int, tokens: int, width: int, blocks: int = 1,
               item_bytes: int = 4) -> int:
    """What a rank sends in one training step: two sums of the activations in
    forward and two in backward, each 2 (n - 1) / n of the tensor in a ring."""
    one = tokens * width * item_bytes
    return blocks * 4 * 2 * (ranks - 1) * one // ranks


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
        losses.append(float(loss))
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
    with CommDebugMode() as seen:
        found = steps(block, args.steps)
    worst = max(abs(a - b) for a, b in zip(found, wanted))
    if rank == 0:
        for a, b in zip(found, wanted):
            print(f"loss {a:.6f} on {world} processes, {b:.6f} on one")
        if not args.compile:
            sums = seen.get_total_counts() / args.steps
            print(f"{sums:g} sums a step, {sums_bytes(world, TOKENS, WIDTH)} "
                  "bytes sent by each process")
    dist.destroy_process_group()
    if worst > 1e-4:
        raise SystemExit(f"losses differ by {worst}")


if __name__ == "__main__":
    main()
