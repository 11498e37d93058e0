#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Attention over packed requests, written three ways.

The form that FlashInfer users know is a loop over requests inside the model.
Lengths are read on the host, so the compiler either stops there or unrolls the
loop anew for each batch. Where all lengths are equal the loop may be a reshape
and one batched call. The ragged operator takes any lengths as they are.
"""

from __future__ import annotations

import argparse
import time
from typing import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from opgraft import ops

HEADS, KV_HEADS, SIZE = 8, 8, 64


def by_loop(q: Tensor, k: Tensor, v: Tensor, indptr: list[int]) -> Tensor:
    found = []
    for begin, end in zip(indptr, indptr[1:], strict=False):
        one = [t[begin:end].transpose(0, 1)[None] for t in (q, k, v)]
        found.append(F.scaled_dot_product_attention(
            *one, is_causal=True)[0].transpose(0, 1))
    return torch.cat(found)


def by_reshape(q: Tensor, k: Tensor, v: Tensor, requests: int) -> Tensor:
    batch = [t.unflatten(0, (requests, -1)).transpose(1, 2) for t in (q, k, v)]
    found = F.scaled_dot_product_attention(*batch, is_causal=True)
    return found.transpose(1, 2).flatten(0, 1)


def by_ragged(q: Tensor, k: Tensor, v: Tensor, plan: Tensor,
              split_bytes: int) -> Tensor:
    return ops.batch_prefill_ragged(plan, q, k, v, split_bytes=split_bytes)[0]


def best(calls: dict[str, Callable[[], Tensor]], rounds: int) -> dict[str, float]:
    """Milliseconds: the least of `rounds`, taken in turn."""
    least = dict.fromkeys(calls, float("inf"))
    for _ in range(rounds):
        for name, call in calls.items():
            begin = time.perf_counter()
            call()
            least[name] = min(least[name], time.perf_counter() - begin)
    return {name: 1e3 * seconds for name, seconds in least.items()}


def measure(lengths: list[int], rounds: int, compile_too: bool) -> dict[str, float]:
    q, k, v = (torch.randn(sum(lengths), h, SIZE)
               for h in (HEADS, KV_HEADS, KV_HEADS))
    indptr = torch.tensor([0, *lengths]).cumsum(0).to(torch.int32)
    plan = ops.plan_attention(indptr, indptr, HEADS, KV_HEADS, SIZE,
                              causal=True)
    forms = {"loop": (by_loop, (indptr.tolist(),)),
             "ragged": (by_ragged, (plan.plan, plan.split_bytes))}
    if len(set(lengths)) == 1:
        forms["reshape"] = (by_reshape, (len(lengths),))
    calls = {}
    wanted = by_loop(q, k, v, indptr.tolist())
    for name, (form, rest) in forms.items():
        calls[name] = lambda f=form, r=rest: f(q, k, v, *r)
        if compile_too:
            compiled = torch.compile(form, fullgraph=True)
            calls[f"{name}, compiled"] = lambda f=compiled, r=rest: f(
                q, k, v, *r)
    for name, call in calls.items():
        torch.testing.assert_close(call(), wanted, atol=1e-4, rtol=1e-4,
                                   msg=lambda text, n=name: f"{n}: {text}")
    return best(calls, rounds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true",
                        help="short, and eager only")
    options = parser.parse_args()
    cut, rounds = (8, 5) if options.smoke else (1, 15)
    batches = {
        "16 requests of 256": [256 // cut] * 16,
        "Zipf, 32 requests": [max(1, 2048 // cut // r) for r in range(1, 33)],
    }
    with torch.no_grad():
        for title, lengths in batches.items():
            print(f"{title}, f32, {torch.get_num_threads()} threads (ms)")
            times = measure(lengths, rounds, not options.smoke)
            for name, ms in times.items():
                print(f"  {name:<18} {ms:9.2f}")
            if "reshape" in times:
                forms = [t for n, t in times.items() if n.startswith("reshape")]
                ratio = times["ragged"] / min(forms)
                verdict = "holds" if ratio <= 1.1 else "falls short"
                print(f"goal: fixed lengths, ragged / reshape {ratio:.2f} "
                      f"(<= 1.1) {verdict}")


if __name__ == "__main__":
    main()
