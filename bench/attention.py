#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ragged attention against what a CPU user has: SDPA in a loop, SDPA padded,
flex_attention compiled. One interleaved run.

GFLOP/s count useful causal work (4 * heads * size * visible pairs), GB/s the
keys and values once; per cent of the machine's limit, measured in turns with
the contenders: FMA alone for about as long as our call takes, or plain reading
of the same keys and values. Decode over caches of 8 bits has no rival: it
stands beside reading them, and its error beside that of the format.
Masks and padding of the rivals are prepared outside the timing, plans of ours
too; `plan` is timed by itself.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable

sys.path.insert(0, str(Path(__file__).resolve().parent))
import harness  # noqa: E402
import machine  # noqa: E402
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402

from opgraft import ops  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
HEADS = [(8, 8, 64), (32, 8, 128)]
SLOW = 8  # times ours
CACHES = {"int8": (torch.int8, 127.0), "e4m3": (torch.float8_e4m3fn, 448.0),
          "e5m2": (torch.float8_e5m2, 57344.0)}
PAGE = 16
PROGRAM = Path(sys.executable).with_name("opgraft")


@dataclass
class Case:
    name: str
    q: list[int]
    kv: list[int]
    is_decode: bool = False
    is_ragged: bool = True


def cases(is_smoke: bool) -> list[Case]:
    rng = random.Random(1)
    cut = 8 if is_smoke else 1
    zipf = [max(1, 2048 // cut // r) for r in range(1, 33)]
    rng.shuffle(zipf)
    decode = [max(1, 8192 // cut // r) for r in range(1, 65)]
    q = [rng.randint(1, 128) for _ in range(16 // min(cut, 4))]
    kv = [rng.randint(512, 4096 // min(cut, 4)) for _ in q]
    return [
        Case("16 x 256", [256 // cut] * 16, [256 // cut] * 16,
             is_ragged=False),
        Case("Zipf 32", zipf, zipf),
        Case("1 x 4096", [4096 // cut], [4096 // cut], is_ragged=False),
        Case("chunked 16", q, kv),
        Case("decode 64", [1] * 64, decode, is_decode=True),
        # More than any cache holds, in both types.
        Case("decode 64 x 2560", [1] * 64, [2560 // cut] * 64, is_decode=True,
             is_ragged=False),
    ]


def pairs(case: Case) -> int:
    return sum(kv * q - q * (q - 1) // 2 if kv >= q else kv * (kv + 1) // 2
               for q, kv in zip(case.q, case.kv, strict=True))


def indptr(lengths: list[int]) -> torch.Tensor:
    return torch.tensor([0, *lengths]).cumsum(0).to(torch.int32)


class Work:
    """One case's tensors, and each contender as a call without arguments."""

    def __init__(
        self, case: Case, heads: tuple[int, int, int], dtype: torch.dtype
    ) -> None:
        self.case, self.heads, self.dtype = case, heads, dtype
        hq, hk, size = heads
        self.q = torch.randn(sum(case.q), hq, size).to(dtype)
        self.kv = torch.randn(2, sum(case.kv), hk, size).to(dtype)
        self.k, self.v = self.kv
        self.q_indptr, self.kv_indptr = indptr(case.q), indptr(case.kv)
        self.plan = self.make_plan()
        self.out = torch.empty_like(self.q)
        self.lse = torch.empty(self.q.shape[:2])

    def make_plan(self) -> Any:
        return ops.plan_attention(
            self.kv_indptr, self.q_indptr, *self.heads, causal=True)

    def ours(self) -> Any:
        """Into one output, as the loop of SDPA."""
        return ops.batch_prefill_ragged(
            self.plan.plan, self.q, self.k, self.v,
            split_bytes=self.plan.split_bytes, out=(self.out, self.lse))

    def workspace_bytes(self, threads: int) -> int:
        """All that our call may use beside its tensors and the plan."""
        def sizes(name: str, t: torch.Tensor) -> str:
            kind = {torch.uint8: "u8", torch.float32: "f32",
                    torch.bfloat16: "bf16"}[t.dtype]
            return f"{name}:{kind}[{','.join(map(str, t.shape))}]"

        found = subprocess.run(
            [str(PROGRAM), "inspect",
             ops._modules["batch_prefill_ragged"].path, "--json",
             "--threads", str(threads),
             sizes("plan", self.plan.plan), sizes("q", self.q),
             sizes("k", self.k), sizes("v", self.v),
             f"split_bytes={self.plan.split_bytes}"],
            check=True, capture_output=True, text=True).stdout
        return int(json.loads(found)["call"]["workspace_bytes"])

    def loop(self) -> Callable[[], Any]:
        """SDPA request by request, into one output."""
        parts = []
        out = torch.empty_like(self.q)
        for i in range(len(self.case.q)):
            a, b = self.q_indptr[i:i + 2].tolist()
            c, d = self.kv_indptr[i:i + 2].tolist()
            mask = None
            if b - a not in (1, d - c):
                mask = torch.ones(b - a, d - c, dtype=torch.bool).tril(
                    d - c - b + a)
            views = [t.transpose(0, 1)[None]
                     for t in (self.q[a:b], self.k[c:d], self.v[c:d])]
            parts.append((views, mask, b - a == d - c and b - a > 1, out[a:b]))

        def run() -> torch.Tensor:
            for views, mask, causal, to in parts:
                to.copy_(F.scaled_dot_product_attention(
                    *views, attn_mask=mask, is_causal=causal,
                    enable_gqa=True)[0].transpose(0, 1))
            return out

        return run

    def padded(self) -> Callable[[], Any]:
        """One SDPA over all requests, padded to the longest."""
        n, hq, hk, size = len(self.case.q), *self.heads
        most_q, most_kv = max(self.case.q), max(self.case.kv)
        q = torch.zeros(n, hq, most_q, size, dtype=self.dtype)
        k = torch.zeros(n, hk, most_kv, size, dtype=self.dtype)
        v = torch.zeros_like(k)
        mask = torch.zeros(n, 1, most_q, most_kv, dtype=torch.bool)
        for i, (ql, kl) in enumerate(zip(self.case.q, self.case.kv)):
            a, c = int(self.q_indptr[i]), int(self.kv_indptr[i])
            q[i, :, :ql] = self.q[a:a + ql].transpose(0, 1)
            k[i, :, :kl] = self.k[c:c + kl].transpose(0, 1)
            v[i, :, :kl] = self.v[c:c + kl].transpose(0, 1)
            mask[i, 0, :ql, :kl] = torch.ones(
                ql, kl, dtype=torch.bool).tril(kl - ql)
        is_causal = self.case.q == self.case.kv
        return lambda: F.scaled_dot_product_attention(
            q, k, v, attn_mask=None if is_causal else mask,
            is_causal=is_causal, enable_gqa=True)

    def flex(self) -> Callable[[], Any]:
        """flex_attention over the packed rows, compiled."""
        from torch.nn.attention.flex_attention import (
            create_block_mask,
            flex_attention,
        )

        q_of = torch.repeat_interleave(
            torch.arange(len(self.case.q)), self.q_indptr.diff())
        kv_of = torch.repeat_interleave(
            torch.arange(len(self.case.kv)), self.kv_indptr.diff())
        shift = (self.kv_indptr[1:] - self.q_indptr[1:]).long()

        def seen(b: Any, h: Any, i: Any, j: Any) -> Any:
            return (q_of[i] == kv_of[j]) & (j <= i + shift[q_of[i]])

        block = create_block_mask(
            seen, None, None, self.q.shape[0], self.k.shape[0], device="cpu")
        torch._dynamo.reset()  # each case compiles its own
        run = torch.compile(flex_attention, dynamic=False)
        views = [t.transpose(0, 1)[None] for t in (self.q, self.k, self.v)]
        return lambda: run(*views, block_mask=block, enable_gqa=True)


def contenders(
    work: Work, with_flex: bool
) -> tuple[dict[str, Callable[[], Any]], dict[str, float]]:
    """Calls to interleave, and seconds of the rivals' calls that took many
    times as long as ours: those are not repeated."""
    found: dict[str, Callable[[], Any]] = {"opgraft": work.ours}
    slow: dict[str, float] = {}
    makers = {"SDPA loop": work.loop, "SDPA padded": work.padded}
    if with_flex:
        makers["flex compiled"] = work.flex
    ours = min(once(work.ours) for _ in range(3))
    for name, make in makers.items():
        try:
            call = make()
            if name == "flex compiled":
                call()  # compiles
            seconds = once(call)
        except Exception as error:  # a rival that does not run is left out
            print(f"  {name} left out: {str(error).splitlines()[0][:120]}")
            continue
        if seconds > SLOW * ours:
            slow[name] = seconds
        else:
            found[name] = call
    return found, slow


def once(call: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def repeat(call: Callable[[], Any]) -> Callable[[int], Any]:
    def run(count: int) -> None:
        for _ in range(count):
            call()

    return run


def measure_case(
    work: Work, limit: machine.Machine, with_flex: bool, blocks: int
) -> dict[str, float]:
    calls, slow = contenders(work, with_flex)
    limits = (limit.reading(work.kv) if work.case.is_decode
              else limit.arithmetic(work.dtype, min(
                  once(work.ours) for _ in range(3))))
    timings = harness.measure(
        {n: repeat(c) for n, c in calls.items()}
        | {n: bound.run for n, bound in limits.items()},
        block_ns=1, blocks=blocks)
    hq, hk, size = work.heads
    useful, unit = ((work.kv.nbytes, "GB/s") if work.case.is_decode
                    else (4 * hq * size * pairs(work.case), "GFLOP/s"))
    most = max(bound.work / timings[n].least for n, bound in limits.items())
    for name, timing in timings.items():
        rate = (limits[name].work if name in limits else useful) / timing.least
        peak = machine.peak_mb(calls[name]) if name in calls else 0.0
        print(f"  {name:<14} {timing.least / 1e6:9.2f} / "
              f"{timing.median / 1e6:9.2f} ms {rate:8.1f} {unit:<8}"
              f"{100 * rate / most:5.0f} % "
              f"{'?' if peak is None else f'{peak:.0f}'} MB")
    for name, seconds in slow.items():
        print(f"  {name:<14} {1e3 * seconds:9.2f} ms, one call")
    ours = timings["opgraft"].least
    rivals = [t.least for n, t in timings.items()
              if n in calls and n != "opgraft"]
    rivals += [1e9 * seconds for seconds in slow.values()]
    share = useful / ours / most
    return {"share": share, "ours": ours, "limit": most,
            "workspace": work.workspace_bytes(torch.get_num_threads()),
            "ratio": min(rivals) / ours if rivals else 0.0,
            "twice": 2 * share * ours / min(rivals) if rivals else 0.0}


class Cache:
    """Keys and values of a decode case in 8 bits: pages in any order, heads of
    other sizes, and a scale for each."""

    def __init__(self, case: Case, heads: tuple[int, int, int], form: str) -> None:
        _, kv_heads, size = heads
        self.case, self.heads, self.form = case, heads, form
        pages = [-(-n // PAGE) for n in case.kv]
        self.indptr = indptr(pages)
        self.pages = torch.randperm(sum(pages)).to(torch.int32)
        self.last = torch.tensor([(n - 1) % PAGE + 1 for n in case.kv]).int()
        self.kv = torch.zeros(2, sum(pages), PAGE, kv_heads, size,
                              dtype=torch.uint8).view(CACHES[form][0])
        sizes = torch.linspace(.5, 2, kv_heads)
        self.scale = 6 * sizes / CACHES[form][1]
        self.exact = []  # keys and values of some requests
        for b, n in enumerate(case.kv):
            rows = torch.randn(2, n, kv_heads, size) * sizes[:, None]
            ops.reshape_and_cache_scaled(*rows, *self.kv, self.slots(b), self.scale,
                                         self.scale)
            if b < 4:
                self.exact.append(rows)

    def slots(self, b: int) -> torch.Tensor:
        at = torch.arange(self.case.kv[b])
        return self.pages[self.indptr[b] + at // PAGE].long() * PAGE + at % PAGE

    def decode(self, q: torch.Tensor) -> Callable[[], Any]:
        plan = ops.plan_attention(self.indptr, None, *self.heads, page_size=PAGE,
                                  last_page_len=self.last)
        out = (torch.empty_like(q), torch.empty(q.shape[:2]))
        return lambda: ops.batch_decode_paged_scaled(
            plan.plan, q, *self.kv, self.pages, self.scale, self.scale,
            split_bytes=plan.split_bytes, out=out)

    def errors(self, q: torch.Tensor, y: torch.Tensor) -> tuple[float, float]:
        """Of the format, in float64, and of what is computed over the cache,
        both relative to attention over what was rounded."""
        squares = [0.0, 0.0, 0.0]
        for b, rows in enumerate(self.exact):
            cached = self.kv.flatten(1, 2)[:, self.slots(b)]
            cached = cached.view(CACHES[self.form][0]).double()
            exact = decoded(q[b], rows.double())
            rounded = decoded(q[b], cached * self.scale[:, None])
            for i, part in enumerate((rounded - exact, y[b] - rounded, exact)):
                squares[i] += part.square().sum().item()
        of_format, of_sums, size = map(math.sqrt, squares)
        return of_format / size, of_sums / size


def decoded(q: torch.Tensor, kv: torch.Tensor) -> torch.Tensor:
    """[heads, size], of keys and values [2, tokens, heads, size]."""
    grouped = q.double().unflatten(0, (kv.shape[2], -1))
    weights = torch.einsum("hgd,khd->hgk", grouped, kv[0]) / math.sqrt(kv.shape[3])
    return torch.einsum("hgk,khd->hgd", weights.softmax(2), kv[1]).flatten(0, 1)


def cache_rows(limit: machine.Machine, kinds: list[torch.dtype],
               chosen: list[tuple[int, int, int]], threads: int, is_smoke: bool,
               goals: harness.Goals) -> None:
    """Decode over caches of 8 bits."""
    for heads in chosen:
        for case in [c for c in cases(is_smoke) if c.is_decode]:
            for form in CACHES:
                cache = Cache(case, heads, form)
                for dtype in kinds:
                    cache_row(limit, cache, dtype, threads, goals)


def cache_row(limit: machine.Machine, cache: Cache, dtype: torch.dtype,
              threads: int, goals: harness.Goals) -> None:
    kind = str(dtype).removeprefix("torch.")
    name = f"{cache.case.name} {'/'.join(map(str, cache.heads))}"
    label = f"{kind} {name} over {cache.form}, {threads} threads"
    q = torch.randn(len(cache.case.q), *cache.heads[::2]).to(dtype)
    ours = cache.decode(q)
    of_format, of_sums = cache.errors(q, ours()[0])
    limits = limit.reading(cache.kv)
    try:
        timings = harness.measure(
            {"opgraft": repeat(ours)} | {n: b.run for n, b in limits.items()},
            block_ns=1, blocks=harness.LEAST_BLOCKS)
    except harness.TooNoisy:
        goals.noisy(label)
        return
    most = max(b.work / timings[n].least for n, b in limits.items())
    rate = cache.kv.nbytes / timings["opgraft"].least
    goals.add(f"{label}: share of bandwidth", rate / most, 0.8, at_most=False)
    goals.limit(f"{label}: GB/s of reading", most)
    print(f"  {1e-6 * timings['opgraft'].least:.2f} ms; error of the format "
          f"{of_format:.2e}, of the sums {of_sums:.1e}")
    goals.add(f"{label}: error of the sums over the format's",
              of_sums / of_format, 1)


def dots_over_fma(limit: machine.Machine) -> float:
    limits = limit.arithmetic(torch.bfloat16)
    times = harness.measure({n: bound.run for n, bound in limits.items()})
    rates = {n: bound.work / times[n].least for n, bound in limits.items()}
    return rates["dot_avx512_bf16"] / rates["fma_avx512"]


def plan_time(goals: harness.Goals, threads: int) -> None:
    lengths = [max(1, 8192 // r) for r in range(1, 65)]
    kv, q = indptr(lengths), indptr([1] * 64)
    batch = (kv, q, None, 32, 8, 128, 128, 0, True)
    size = int(ops.attention_plan_size(*batch))
    buffer = torch.empty(size, dtype=torch.uint8)
    out = torch.ops.attention_plan.attention_plan.out
    what = f"plan of 64 requests, {threads} threads"
    try:
        timing = harness.measure({"plan": harness.loop(
            "out(*batch, size=size, out=buffer)", out=out, batch=batch,
            size=size, buffer=buffer)})["plan"]
        goals.add(what, timing.least / 1e3, 50, unit=" us")
    except harness.TooNoisy:
        goals.noisy(what)
    plan = ops.plan_attention(kv, None, 32, 8, 128)
    goals.add(f"imbalance on Zipf, {threads} threads",
              100 * (plan.imbalance - 1), 5, unit=" %")


def run_threads(
    threads: int, options: argparse.Namespace, goals: harness.Goals
) -> None:
    torch.set_num_threads(threads)
    limit = machine.Machine()
    times: dict[tuple[str, tuple[int, int, int], str], float] = {}
    chosen = [h for h in HEADS[:1] if options.smoke] or HEADS
    kinds = [d for d in (torch.float32, torch.bfloat16)
             if options.dtype in (None, str(d).removeprefix("torch."))]
    cache_rows(limit, kinds,
               [h for h in chosen
                if options.heads in (None, "/".join(map(str, h)))],
               threads, options.smoke, goals)
    for dtype in () if options.caches else kinds:
        kind = str(dtype).removeprefix("torch.")
        if kind == "bfloat16" and limit.isa == "avx512_bf16":
            what = f"{threads} threads: bf16 dot products / FMA"
            try:
                goals.limit(what, dots_over_fma(limit))
            except harness.TooNoisy:
                goals.noisy(what)
        print(f"\n{kind}, {threads} threads, {limit.isa}")
        for heads in chosen:
            if options.heads not in (None, "/".join(map(str, heads))):
                continue
            for case in cases(options.smoke):
                name = f"{case.name} {'/'.join(map(str, heads))}"
                label = f"{kind} {name}, {threads} threads"
                print(f" {name}")
                try:
                    figures = measure_case(
                        Work(case, heads, dtype), limit, options.flex,
                        harness.LEAST_BLOCKS)
                except harness.TooNoisy:
                    goals.noisy(label)
                    continue
                times[case.name, heads, kind] = figures["ours"]
                judge(goals, label, case, kind, figures)
                goals.limit(f"{label}: " + ("GB/s of reading" if case.is_decode
                                            else "GFLOP/s of the peak"),
                            figures["limit"])
                goals.add(f"{label}: memory beside output and plan, a thread",
                          figures["workspace"] / threads / 1e6, 1, unit=" MB")
                f32 = times.get((case.name, heads, "float32"))
                if (kind == "bfloat16" and f32 and not case.is_decode
                        and limit.isa == "avx512_bf16"):
                    goals.add(f"{label}: bf16 over f32",
                              f32 / figures["ours"], 1.5, at_most=False)


def judge(
    goals: harness.Goals, label: str, case: Case, kind: str,
    figures: dict[str, float]
) -> None:
    if case.is_decode:
        goals.add(f"{label}: share of bandwidth", figures["share"], 0.8,
                  at_most=False)
    elif kind == "float32":
        goals.add(f"{label}: share of FMA peak", figures["share"], 0.6,
                  at_most=False)
    if case.is_ragged:
        goals.add(f"{label}: best rival / ours", figures["ratio"], 2,
                  at_most=False)
        if not case.is_decode:
            goals.limit(f"{label}: share of the peak that twice the best "
                        "rival takes", figures["twice"])


def part_name(options: argparse.Namespace) -> str:
    """attention, or with what this run is restricted to."""
    words = ["attention", os.environ.get("OPGRAFT_ISA"),
             options.caches and "caches", options.dtype,
             options.heads and options.heads.replace("/", "-"),
             len(options.threads) == 1 and f"{options.threads[0]}t"]
    return "_".join(w for w in words if w)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--flex", action="store_true",
                        help="also flex_attention (compiles for minutes)")
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--heads", choices=["8/8/64", "32/8/128"],
                        help="query heads, KV heads, size: only these")
    parser.add_argument("--caches", action="store_true",
                        help="only decode over caches of 8 bits")
    parser.add_argument("--dtype", choices=["float32", "bfloat16"],
                        help="only this one")
    options = parser.parse_args()
    goals = harness.Goals(part_name(options))
    for threads in options.threads:
        run_threads(threads, options, goals)
        plan_time(goals, threads)
    if not options.smoke:
        goals.write([*(ROOT / "src" / "kernel").glob("*"),
                     ROOT / "ops" / "batch_prefill_ragged.c",
                     ROOT / "ops" / "batch_decode_paged.c"])


if __name__ == "__main__":
    main()
