#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ragged attention in mode reduce-overhead, beside a loop over requests.

The loop asks a tensor where each request begins; `.item()` splits the graph,
once for each request. The ragged operator takes the packed requests as they
are: one graph for every batch.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from common import difference, show, times
from torch import Tensor

import opgraft.doctor
from opgraft import ops

HEADS, SIZE = 8, 64


def by_loop(q: Tensor, k: Tensor, v: Tensor, indptr: Tensor) -> Tensor:
    parts = []
    for i in range(len(indptr) - 1):
        begin, end = indptr[i].item(), indptr[i + 1].item()
        one = [t[begin:end].transpose(0, 1)[None] for t in (q, k, v)]
        parts.append(F.scaled_dot_product_attention(
            *one, is_causal=True)[0].transpose(0, 1))
    return torch.cat(parts)


def by_ragged(q: Tensor, k: Tensor, v: Tensor, plan: Tensor,
              split_bytes: int) -> Tensor:
    return ops.batch_prefill_ragged(plan, q, k, v, split_bytes=split_bytes)[0]


def batch(lengths: list[int]) -> tuple[list[Tensor], Tensor, tuple[Tensor, int]]:
    """(queries, keys and values; where requests begin; the plan)"""
    packed = [torch.randn(sum(lengths), HEADS, SIZE) for _ in range(3)]
    indptr = torch.tensor([0, *lengths]).cumsum(0).to(torch.int32)
    plan = ops.plan_attention(indptr, indptr, HEADS, HEADS, SIZE,
                                      causal=True)
    return packed, indptr, (plan.plan, plan.split_bytes)


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    packed, indptr, plan = batch([96 // rank for rank in range(1, 17)])
    other, bounds, other_plan = batch([5, 1, 40, 3] * 4)
    mode = dict(backend="opgraft", mode="reduce-overhead")
    with torch.no_grad():
        report = opgraft.doctor.inspect(by_loop, *packed, indptr, runs=0)
        root = report.roots[0]
        print(f"  the loop: {report.data['graphs']['fx']} graphs. ragged.py:"
              f"{root['line']}: {root['code']}\n    {root['title']}")
        loop = torch.compile(by_loop, **mode)
        ragged = torch.compile(by_ragged, fullgraph=True, dynamic=True, **mode)
        worst = max(difference(ragged(*packed, *plan), by_loop(*packed, indptr)),
                    difference(ragged(*other, *other_plan),
                               by_loop(*other, bounds)))
        shown = times({"the loop": lambda: loop(*packed, indptr),
                       "ragged, one graph, any batch":
                           lambda: ragged(*packed, *plan)})
    show(shown)
    first, last = shown.values()
    print(f"ragged attention: no break in one graph for two batches; equal to "
          f"the loop within {worst}; {first:.0f} -> {last:.0f} us, "
          f"{first / last:.1f} times as fast")


if __name__ == "__main__":
    main()
