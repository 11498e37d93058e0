#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A tensor-parallel Llama-style block on two gloo processes of one thread each:
compiled by opgraft and by Inductor, in turns.

The block is torch's own modules, shared by columns and then rows, with one sum
behind each half. The processes make the same calls; a block begins behind a
barrier, and process 0 takes the time. Eager mode and a sum alone stand beside.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Callable

sys.path.insert(0, str(Path(__file__).resolve().parent))
import each  # noqa: E402
import harness  # noqa: E402
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402
from torch.distributed.device_mesh import (  # noqa: E402
    DeviceMesh,
    init_device_mesh,
)
from torch.distributed.tensor.parallel import (  # noqa: E402
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)

ROOT = Path(__file__).resolve().parents[1]
WORLD = 2
BOUND = 1.05
BLOCK_S = 0.1
TOKENS, WIDTH, HEADS, INNER = 64, 512, 8, 1408
SMALL = 8, 64, 4, 128
CALL = "tensor-parallel block, forward / Inductor's time"
STEP = "tensor-parallel block, forward + backward / Inductor's time"
T = torch.Tensor


class Block(nn.Module):
    def __init__(self, width: int, heads: int, inner: int) -> None:
        super().__init__()
        self.head = width // heads
        self.norm1, self.norm2 = nn.RMSNorm(width), nn.RMSNorm(width)
        self.q, self.k, self.v, self.o = (
            nn.Linear(width, width, bias=False) for _ in range(4))
        self.gate = nn.Linear(width, inner, bias=False)
        self.up = nn.Linear(width, inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x: T) -> T:
        y = self.norm1(x)
        q, k, v = (f(y).unflatten(-1, (-1, self.head)).transpose(1, 2)
                   for f in (self.q, self.k, self.v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(y.transpose(1, 2).flatten(2))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


def shared(mesh: DeviceMesh, sizes: tuple[int, ...]) -> Block:
    torch.manual_seed(0)
    block = Block(*sizes[1:])
    columns, rows = ColwiseParallel(), RowwiseParallel()
    parallelize_module(block, mesh, dict.fromkeys(
        ("q", "k", "v", "gate", "up"), columns) | {"o": rows, "down": rows})
    return block


def cases(mesh: DeviceMesh, sizes: tuple[int, ...]
          ) -> dict[str, Callable[[], Any]]:
    x = torch.randn(1, *sizes[:2])
    held = x.clone().requires_grad_()
    token = torch.ones(1)

    def forward(f: Any) -> Callable[[], Any]:
        def run() -> T:
            with torch.no_grad():
                return f(x)  # type: ignore[no-any-return]
        return run

    def step(f: Any) -> Callable[[], Any]:
        def run() -> T:
            held.grad = None
            f(held).square().mean().backward()
            assert held.grad is not None
            return held.grad
        return run

    block = shared(mesh, sizes)
    out: dict[str, Callable[[], Any]] = {}
    for kind, make in (("forward", forward), ("step", step)):
        out[f"{kind}: eager"] = make(block)
        for backend in ("inductor", "opgraft"):
            compiled = torch.compile(shared(mesh, sizes), backend=backend,
                                     fullgraph=True)
            out[f"{kind}: {backend}"] = make(compiled)
    out["a sum of one number"] = lambda: dist.all_reduce(token)
    for name, run in out.items():
        if name.startswith(("forward", "step")):
            wanted = out[f"{name.partition(':')[0]}: eager"]()
            for _ in range(3):
                torch.testing.assert_close(run(), wanted, rtol=1e-3, atol=1e-4)
    return out


def timed(run: Callable[[], Any], count: int) -> float:
    dist.barrier()
    begin = time.perf_counter()
    for _ in range(count):
        run()
    return (time.perf_counter() - begin) / count


def agreed(number: float) -> float:
    """Process 0's."""
    shared_number = torch.tensor([number], dtype=torch.float64)
    dist.broadcast(shared_number, 0)
    return float(shared_number)


def ticks_of_all() -> float:
    own = torch.tensor([harness.own_ticks()], dtype=torch.float64)
    dist.all_reduce(own)
    return float(own)


def measured(runs: dict[str, Callable[[], Any]], blocks: int
             ) -> dict[str, list[float]]:
    """Seconds of each case, a figure a block that counts."""
    counts = {name: max(1, int(agreed(BLOCK_S / timed(run, 3))))
              for name, run in runs.items()}
    out: dict[str, list[float]] = {name: [] for name in runs}
    tick = os.sysconf("SC_CLK_TCK")
    for _ in range(2 * blocks):
        busy, own = harness.busy_ticks(), ticks_of_all()
        begin = time.perf_counter()
        row = {name: timed(run, counts[name]) for name, run in runs.items()}
        wall = time.perf_counter() - begin
        foreign = harness.busy_ticks() - busy - (ticks_of_all() - own)
        share = foreign / (wall * tick * (os.cpu_count() or 1))
        if agreed(share) > harness.FOREIGN_SHARE:
            continue
        for name, seconds in row.items():
            out[name].append(seconds)
        if len(next(iter(out.values()))) == blocks:
            break
    return out


def child(words: list[str]) -> None:
    rank, blocks, store, size = int(words[0]), int(words[1]), *words[2:]
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=WORLD,
                            init_method=f"file://{store}")
    mesh = init_device_mesh("cpu", (WORLD,))
    sizes = SMALL if size == "small" else (TOKENS, WIDTH, HEADS, INNER)
    found = measured(cases(mesh, sizes), blocks)
    if rank == 0:
        each.report(found)
    dist.barrier()
    os._exit(0)


def attempt(blocks: int, size: str) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        store = f"{folder}/store"
        other = subprocess.Popen(
            [sys.executable, __file__, "--one", "1", str(blocks), store, size],
            stdout=subprocess.DEVNULL)
        try:
            found = each.one(Path(__file__), ["0", str(blocks), store, size],
                             timeout=900)
        finally:
            other.kill()
            other.wait()
    if "error" in found:
        raise SystemExit(found["error"])
    if len(found["forward: eager"]) < harness.LEAST_BLOCKS:
        raise harness.TooNoisy
    harness.print_table(
        f"{WORLD} processes", {n: harness.Timing(v) for n, v in found.items()},
        1e-6, "us")
    return {what: min(found[f"{kind}: opgraft"]) / min(found[f"{kind}: inductor"])
            for what, kind in ((CALL, "forward"), (STEP, "step"))}


def main() -> None:
    if sys.argv[1:2] == ["--one"]:
        child(sys.argv[2:])
    is_smoke, blocks, attempts, goals = harness.start(__doc__, "distributed")
    size = "small" if is_smoke else "whole"
    harness.judged(lambda: attempt(blocks, size),
                   {CALL: (BOUND, True), STEP: (BOUND, True)}, goals, attempts)
    if not is_smoke:
        goals.write([Path(__file__), ROOT / "python/opgraft/_graph/collectives.py",
                     *sorted((ROOT / "src/exec").rglob("*.[ch]"))])


if __name__ == "__main__":
    main()
