#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fused loops beside Inductor's C++, on one thread, in one interleaved run.

Each case is compiled in mode max-autotune and by Inductor, and what Dynamo
calls is called without it. In cache: operands and results take half of the
second-level cache; a time is that of the call less that of a call on one row,
so that what is compared is the loops. From memory: they take four times the
last-level cache; the limit beside them reads and writes as many streams
(bench/peers/streams.c), past the caches where that is faster. Bytes are those
of operands and results, once each. Encoding is that of the machine code: a
kernel's share where all cases are one graph, and of the slowest where each is
a graph of its own, whose encoder finds nothing of itself in the caches; the
least of five times. Distances to float64 are those of all results, root mean
squares relative to the results'.
"""

from __future__ import annotations

import functools
import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable

sys.path.insert(0, str(Path(__file__).resolve().parent))
import graph_set  # noqa: E402
import harness  # noqa: E402
import machine  # noqa: E402
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402

import opgraft  # noqa: E402

T = torch.Tensor
LEAST_RATIO, LEAST_SHARE, ENCODE_US = 1.3, 0.85, 20
MOST_DISTANCE = 2  # of eager mode's
COMPILATIONS = 5
FIGURES = ("in cache: Inductor / ours", "memory: share of the limit")


@dataclass
class Case:
    """A function over rows of `width` numbers in f32."""

    width: int
    streams: tuple[int, int]  # of whole rows: read, written
    function: Callable[..., Any]
    arguments: Callable[[int, int], tuple[T, ...]]  # by rows and width

    def rows(self, total: int) -> int:
        return max(2, total // (4 * self.width * sum(self.streams)))

    def bytes(self, rows: int) -> int:
        return 4 * self.width * rows * sum(self.streams)


CASES: dict[str, Case] = {}


def case(width: int, streams: tuple[int, int],
         arguments: Callable[[int, int], tuple[T, ...]]) -> Any:
    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        CASES[function.__name__] = Case(width, streams, function, arguments)
        return function

    return add


def wide(count: int, rows: int, width: int) -> tuple[T, ...]:
    return tuple(torch.randn(rows, width) for _ in range(count))


@case(3072, (2, 1), lambda r, w: (*wide(2, r, w), torch.randn(w)))
def bias_gelu_residual(x: T, residual: T, bias: T) -> T:
    return F.gelu(x + bias) + residual


@case(768, (1, 1), lambda r, w: (*wide(1, r, w), *torch.randn(2, w)))
def layer_norm(x: T, weight: T, bias: T) -> T:
    return F.layer_norm(x, x.shape[-1:], weight, bias)


@case(2048, (2, 2), lambda r, w: (*wide(2, r, w), torch.randn(w)))
def rms_norm_residual(x: T, residual: T, weight: T) -> tuple[T, T]:
    total = x + residual
    return F.rms_norm(total, total.shape[-1:], weight, 1e-6), total


@case(1024, (1, 1), functools.partial(wide, 1))
def softmax(x: T) -> T:
    return torch.softmax(x, -1)


# 16 heads share a token's angles.
@case(1024, (1, 1), lambda r, w: (
    torch.randn(r, 16, w // 16), *torch.randn(2, r, 1, w // 16)))
def rope(x: T, cosine: T, sine: T) -> T:
    first, second = x.chunk(2, -1)
    return x * cosine + torch.cat([-second, first], -1) * sine


@case(8192, (1, 0), lambda r, w: (*wide(1, r, w), torch.randint(0, w, (r,))))
def cross_entropy(x: T, target: T) -> T:
    return F.cross_entropy(x, target)


def sea_water(rows: int, width: int) -> tuple[T, ...]:
    shape = rows, width
    return (35 + torch.rand(shape), 10 + 5 * torch.rand(shape),
            1000 * torch.rand(shape))


@case(1024, (3, 1), sea_water)
def state_equation(salt: T, heat: T, pressure: T) -> T:
    return graph_set.StateEquation().forward(salt, heat, pressure)


# --- What is compared -----------------------------------------------------------


def ours(gm: Any, inputs: Any) -> Any:
    return torch._dynamo.lookup_backend("opgraft")(
        gm, inputs, options={"mode": "max-autotune"})


def inductor(gm: Any, inputs: Any) -> Any:
    from torch._inductor.compile_fx import compile_fx

    return compile_fx(gm, inputs)


@dataclass
class Direct:
    """What a compiler made of a function, called without Dynamo."""

    compiled: Any  # what torch.compile gave
    call: Callable[..., Any]
    inputs: tuple[Any, ...]  # in the graph's order

    def loop(self) -> Callable[[int], Any]:
        return harness.loop("f(*a)", f=self.call, a=self.inputs)


def direct(function: Callable[..., Any], args: tuple[T, ...],
           compiler: Callable[..., Any]) -> Direct:
    """Checked against float64."""
    made: list[tuple[Any, tuple[Any, ...]]] = []

    def backend(gm: Any, inputs: Any) -> Any:
        run = compiler(gm, inputs)

        def once(*given: Any) -> Any:
            made.append((run, given))
            return run(*given)

        return once

    torch._dynamo.reset()
    compiled = torch.compile(function, backend=backend, dynamic=False)
    found = compiled(*args)
    wanted = function(*in_double(args))
    torch.testing.assert_close(found, wanted, rtol=2e-4, atol=2e-4,
                               check_dtype=False)
    if len(made) != 1:
        raise RuntimeError(f"{function.__name__} is {len(made)} graphs")
    return Direct(compiled, *made[0])


def in_double(args: tuple[T, ...]) -> tuple[T, ...]:
    return tuple(a.double() if a.is_floating_point() else a for a in args)


def flat(results: Any) -> T:
    items = results if isinstance(results, (list, tuple)) else [results]
    return torch.cat([i.double().flatten() for i in items])


# --- The machine ----------------------------------------------------------------


def cache_bytes(level: str) -> int:
    """Of the first processor: its level 2, or the last level."""
    sizes = {}
    for index in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*"):
        if (index / "type").read_text().strip() != "Instruction":
            size = (index / "size").read_text().strip()
            sizes[int((index / "level").read_text())] = (
                int(size.rstrip("KM")) << (20 if size.endswith("M") else 10))
    return sizes[2] if level == "second" else sizes[max(sizes)]


def limits(chosen: Case, rows: int) -> dict[str, Callable[[int], Any]]:
    return machine.streams(*chosen.streams, 4 * chosen.width * rows)


# --- Attempts -------------------------------------------------------------------


@dataclass
class Sizes:
    cache: int  # bytes of operands and results
    memory: int
    blocks: int


COMPILERS = {"ours": ours, "Inductor": inductor}


def distances(name: str, sizes: Sizes, goals: harness.Goals
              ) -> dict[str, float]:
    """To float64: ours, Inductor's and eager mode's."""
    chosen = CASES[name]
    args = chosen.arguments(chosen.rows(sizes.cache), chosen.width)
    exact = flat(chosen.function(*in_double(args)))
    torch._dynamo.reset()
    found = {"eager": chosen.function(*args)}
    for who, compiler in COMPILERS.items():
        made = direct(chosen.function, args, compiler)
        found[who] = made.compiled(*args)
    out = {who: float((flat(y) - exact).norm() / exact.norm())
           for who, y in found.items()}
    print("  distance to float64: " + ", ".join(
        f"{who} {off:.2e}" for who, off in out.items()))
    goals.add(f"{name}, distance / eager mode's",
              out["ours"] / max(out["eager"], 2.0**-26), MOST_DISTANCE)
    return out


def in_cache(name: str, sizes: Sizes) -> dict[str, harness.Timing]:
    chosen = CASES[name]
    runs = {}
    for label, rows in (("", chosen.rows(sizes.cache)), (", one row", 1)):
        args = chosen.arguments(rows, chosen.width)
        for who, compiler in COMPILERS.items():
            runs[who + label] = direct(chosen.function, args, compiler).loop()
    return harness.measure(runs, block_ns=1e6, blocks=sizes.blocks)


def from_memory(name: str, sizes: Sizes) -> dict[str, harness.Timing]:
    chosen = CASES[name]
    rows = chosen.rows(sizes.memory)
    args = chosen.arguments(rows, chosen.width)
    runs = {who: direct(chosen.function, args, compiler).loop()
            for who, compiler in COMPILERS.items()}
    return harness.measure(runs | limits(chosen, rows), block_ns=1e6,
                           blocks=sizes.blocks)


def attempt(name: str, sizes: Sizes, rows: dict[str, Any]
            ) -> dict[str, float]:
    """The figures of one run; times in ns go to `rows`."""
    chosen = CASES[name]
    near, far = in_cache(name, sizes), from_memory(name, sizes)
    harness.print_table(f"{name}, in cache", near, 1e3, "us")
    harness.print_table(f"{name}, from memory", far, 1e6, "ms")
    loops = {who: near[who].least - near[f"{who}, one row"].least
             for who in COMPILERS}
    least = min(t.least for n, t in far.items() if n.startswith("limit "))
    total = chosen.bytes(chosen.rows(sizes.memory))
    for who in COMPILERS:
        print(f"  {who}: {loops[who] / 1e3:.2f} us a call in cache without "
              f"its start, {total / far[who].least:.1f} GB/s from memory "
              f"(limit {total / least:.1f})")
    rows[name] = {
        "cache_ns": loops, "memory_GBps": {
            who: total / far[who].least for who in COMPILERS},
        "limit_GBps": total / least,
        "spread": {n: t.median / t.least for n, t in (near | far).items()}}
    return {f"{name}, {FIGURES[0]}": loops["Inductor"] / max(loops["ours"], 1),
            f"{name}, {FIGURES[1]}": least / far["ours"].least}


def encoded(name: str, sizes: Sizes) -> tuple[int, float, list[str]]:
    """Row programs, the time of encoding the slowest of them in us (the least
    of some compilations), what is in none."""
    chosen = CASES[name]
    args = chosen.arguments(chosen.rows(sizes.cache), chosen.width)
    least = math.inf
    for _ in range(COMPILATIONS):
        stats = opgraft.stats(direct(chosen.function, args, ours).compiled)
        programs = [p for g in stats.graphs for p in g["programs"]]
        least = min(least, max((p["encode_ns"] / 1e3 for p in programs),
                               default=math.inf))
    slow = [p["reason"] for p in programs if p["by"] == "interpreter"]
    apart = [f"{a['operator']}: {a['reason']}" for a in stats.unfused]
    return len(programs), least, slow + apart


def encoded_together(sizes: Sizes) -> tuple[int, float]:
    """All cases as one graph: row programs, and the mean time of encoding one
    in us (the least of some compilations)."""
    groups = [c.arguments(c.rows(sizes.cache), c.width) for c in CASES.values()]

    def all_cases(*args: T) -> list[Any]:
        rest = list(args)
        return [c.function(*(rest.pop(0) for _ in group))
                for c, group in zip(CASES.values(), groups)]

    flat = tuple(a for group in groups for a in group)
    means = []
    for _ in range(COMPILATIONS):
        stats = opgraft.stats(direct(all_cases, flat, ours).compiled)
        taken = [p["encode_ns"] / 1e3 for g in stats.graphs
                 for p in g["programs"]]
        means.append(sum(taken) / max(len(taken), 1))
    return len(taken), min(means)


def main() -> None:
    is_smoke, blocks, attempts, goals = harness.start(__doc__, "loops")
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    torch.manual_seed(1)
    harness.memory_keep()
    sizes = Sizes(cache_bytes("second") // 2,
                  (16 << 20) if is_smoke else 4 * cache_bytes("last"), blocks)
    rows: dict[str, Any] = {}
    slowest = 0.0
    for name in CASES:
        count, encode_us, left = encoded(name, sizes)
        print(f"\n{name}: {count} row programs, encoded in at most "
              f"{encode_us:.1f} us" + "".join(f"; {why}" for why in left))
        slowest = max(slowest, encode_us)
        distance = distances(name, sizes, goals)
        harness.judged(
            functools.partial(attempt, name, sizes, rows),
            {f"{name}, {FIGURES[0]}": (LEAST_RATIO, False),
             f"{name}, {FIGURES[1]}": (LEAST_SHARE, False)},
            goals, attempts)
        rows[name]["distance"] = distance
    count, mean_us = encoded_together(sizes)
    goals.add(f"encoding a kernel, of {count} in one graph", mean_us, ENCODE_US,
              unit=" us")
    goals.add("encoding the slowest of the kernels, alone in its graph",
              slowest, ENCODE_US, unit=" us")
    if not is_smoke:
        goals.write(["bench/loops.py", "bench/peers/streams.c", "src/loop",
                     "src/pass", "src/exec/fast/fused.c"], {"rows": rows})


if __name__ == "__main__":
    main()
