#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One decode step of GPT-2 over a cache of 100 different lengths, compiled once
with dynamic=True: what a new length costs, and a length that comes again.

The cost of a new length is that of its plan and of the table that replays it,
stated for 300 nodes. What the first call of a length takes beyond a later one
is printed beside it: fresh memory for results, and views for ATen's kernels.
"""

from __future__ import annotations

import re
import time
from typing import Any

import harness
import torch
from torch import nn

import opgraft
from opgraft._graph import stats

WIDTH, HEADS, LAYERS = 64, 4, 17
LENGTHS, AGAIN = 100, 16  # as many as plans are kept
NODES = 300

COMPILES = "Dynamo's compiles for 100 lengths"
REPLANNED = "plans made when a length comes again"
NEW = "a new length, for 300 nodes (us)"
DISTANCE = "distance to eager, of the largest value"
BOUNDS = {COMPILES: (1.0, True), REPLANNED: (0.0, True), NEW: (200.0, True),
          DISTANCE: (1e-4, True)}


class Decode(nn.Module):
    """One token beside keys and values of `length` tokens for each layer."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.ModuleDict({
                "norm": nn.LayerNorm(WIDTH), "qkv": nn.Linear(WIDTH, 3 * WIDTH),
                "out": nn.Linear(WIDTH, WIDTH), "after": nn.LayerNorm(WIDTH),
                "wide": nn.Linear(WIDTH, 4 * WIDTH),
                "narrow": nn.Linear(4 * WIDTH, WIDTH),
            }) for _ in range(LAYERS))

    def forward(self, x: torch.Tensor, keys: torch.Tensor,
                values: torch.Tensor) -> Any:
        new = []
        for i, b in enumerate(self.layers):
            q, k, v = (t.unflatten(-1, (HEADS, -1)).transpose(1, 2)
                       for t in b["qkv"](b["norm"](x)).chunk(3, -1))
            k = torch.cat([keys[i], k], 2)
            v = torch.cat([values[i], v], 2)
            new += [k, v]
            weight = (q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5).softmax(-1)
            x = x + b["out"]((weight @ v).transpose(1, 2).flatten(2))
            y = nn.functional.gelu(b["wide"](b["after"](x)),
                                   approximate="tanh")
            x = x + b["narrow"](y)
        return x, new


def inputs(length: int) -> tuple[torch.Tensor, ...]:
    shape = (LAYERS, 1, HEADS, length, WIDTH // HEADS)
    return torch.randn(1, 1, WIDTH), torch.randn(shape), torch.randn(shape)


def timed(f: Any, args: Any) -> tuple[float, Any]:
    begin = time.perf_counter_ns()
    out = f(*args)
    return (time.perf_counter_ns() - begin) / 1e3, out


def plan_us(compiled: Any, lengths: list[int]) -> list[float]:
    """What it takes to plan each length, none of which has a plan."""
    graph = stats.graphs_of(compiled)[-1].compiled
    symbols = set(re.findall(r"\bs\d+\b", graph.text()))  # keys', values'
    return [timed(graph.plan, (dict.fromkeys(symbols, n),))[0] for n in lengths]


def attempt(lengths: list[int]) -> dict[str, float]:
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    model = Decode().eval()
    compiled = torch.compile(model, backend="opgraft", dynamic=True)
    args = {n: inputs(n) for n in lengths}
    compiled(*args[lengths[0]])
    extra, distance = [], 0.0
    for n in lengths[1:]:
        first, out = timed(compiled, args[n])
        later = min(timed(compiled, args[n])[0] for _ in range(5))
        extra.append(first - later)
        for a, b in zip(*(torch.utils._pytree.tree_leaves(o)
                          for o in (out, model(*args[n]))), strict=True):
            distance = max(distance,
                           ((a - b).abs().max() / b.abs().max()).item())
    before = opgraft.stats(compiled)
    for n in lengths[-min(AGAIN, len(lengths)):]:
        compiled(*args[n])
    after = opgraft.stats(compiled)
    nodes = after.nodes
    extra.sort()
    costs = sorted(plan_us(compiled, [n + 1000 for n in lengths]))
    print(f"{nodes} nodes, {len(lengths)} lengths: a new one costs "
          f"{costs[0]:.0f} us at least, {costs[len(costs) // 2]:.0f} at the "
          f"median, {costs[-1]:.0f} at most; its first call is slower by "
          f"{extra[0]:.0f}, {extra[len(extra) // 2]:.0f}, {extra[-1]:.0f}")
    return {
        COMPILES: torch._dynamo.utils.counters["stats"]["unique_graphs"],
        REPLANNED: after.replans["shape"] - before.replans["shape"],
        NEW: costs[len(costs) // 2] * NODES / nodes,
        DISTANCE: distance,
    }


def main() -> None:
    is_smoke, _, attempts, goals = harness.start(__doc__, "dynamic")
    torch.set_num_threads(1)
    torch.manual_seed(1)
    lengths = torch.randperm(400)[:5 if is_smoke else LENGTHS] + 2
    with torch.no_grad():
        harness.judged(lambda: attempt(lengths.tolist()), BOUNDS, goals,
                       attempts)
    if not is_smoke:
        goals.write(["bench/dynamic.py", "hosts/torch", "src/exec", "src/plan",
                     "src/graph", "src/import"])


if __name__ == "__main__":
    main()
