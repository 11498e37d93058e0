#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Packed contractions y = x w^T against what a CPU user has: F.linear, oneDNN
with weights packed as Inductor's freezing packs them, ONNX Runtime with a
constant weight (f32 alone). One interleaved run.

Weights are warm: each call reads those of the call before, the first of a block
those of one that is not timed. Few rows also read weights that no cache holds
(`memory`): copies in turn. ONNX Runtime has no such row: a session cannot be
given one copy after the other.

GFLOP/s count 2 m n k, GB/s the weights once. Limits are measured in turns with
the contenders: FMA alone, or plain reading of as many bytes; beside FMA a tile
alone, which has the loads of a product too, from the first-level cache. A figure
is made of the minima of all attempts, which are repeated where one falls short.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable

sys.path.insert(0, str(Path(__file__).resolve().parent))
import harness  # noqa: E402
import machine  # noqa: E402
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402

from opgraft import ops  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
SHAPES = [(768, 768), (3072, 768), (768, 3072), (1024, 1024), (4096, 1024)]
ROWS = [1, 4, 8, 16, 64, 128, 512]
FEW = 4  # rows up to which memory bounds the speed
MEMORY_BYTES = 128 << 20  # of copies: more than any cache holds
PEAK_SHARE, READ_SHARE, LEAST_RATIO, MEAN_RATIO = 0.9, 0.85, 0.93, 1.05
PEAK, TILE = "limit ", "tile "  # kinds of limits, in front of their names
PAUSE_S = 0.004  # a rival's threads spin so long after their work
Runs = dict[str, Callable[[int], Any]]


@dataclass
class Case:
    """One size, and the least time of each contender in all attempts."""

    m: int
    n: int
    k: int
    dtype: torch.dtype
    threads: int
    is_memory: bool = False
    least: dict[str, float] = field(default_factory=dict)

    @property
    def label(self) -> str:
        return (f"{str(self.dtype).removeprefix('torch.')} {self.m} x "
                f"{self.n} x {self.k}, {self.threads} threads"
                f"{', memory' if self.is_memory else ''}")

    @property
    def work(self) -> int:
        return 2 * self.m * self.n * self.k

    @property
    def bytes_read(self) -> int:
        return self.n * self.k * self.dtype.itemsize

    @property
    def copies(self) -> int:
        return MEMORY_BYTES // self.bytes_read + 1 if self.is_memory else 1

    def ratio(self) -> float:
        """The best rival's time over ours."""
        rivals = [v for n, v in self.least.items()
                  if n in ("F.linear", "oneDNN", "ORT")]
        return min(rivals) / self.least["opgraft"]

    def limit(self, kind: str) -> float:
        return max(rate for what, rate in self.least.items()
                   if what.startswith(kind))

    def share(self, kind: str = PEAK) -> float:
        """Of the arithmetic's peak, or of reading where few rows are."""
        useful = self.bytes_read if self.m <= FEW else self.work
        return useful / self.least["opgraft"] / self.limit(kind)


def in_turn(code: str, packs: list[Any], **names: Any
            ) -> Callable[[int], Any]:
    """A case that runs over the copies of the weights; one where it is one."""
    if len(packs) == 1:
        return harness.loop(code, w=packs[0], **names)
    turn = 0
    call = eval(f"lambda w, {', '.join(names)}: {code}")

    def run(count: int) -> None:
        nonlocal turn
        for _ in range(count):
            call(packs[turn], *names.values())
            turn = (turn + 1) % len(packs)

    return run


def warmed(run: Callable[[int], Any]) -> Callable[[int], float]:
    """Times all calls of a block but one before them: the contenders whose turn
    it was have weights of their own, and together they fill the caches; and
    after a rest threads sleep."""
    def timed(count: int) -> float:
        run(1)
        begin = time.perf_counter_ns()
        run(count)
        return time.perf_counter_ns() - begin

    return timed


def onnx_runtime(x: torch.Tensor, w: torch.Tensor, threads: int
                 ) -> Callable[[int], Any]:
    """MatMul by a constant, which the session packs; tensors stay bound."""
    import onnx
    import onnxruntime as ort
    from onnx import TensorProto, helper, numpy_helper

    (m, k), n = x.shape, w.shape[0]
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])], "linear",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [m, k])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [m, n])],
        [numpy_helper.from_array(w.t().contiguous().numpy(), "w")])
    settings = ort.SessionOptions()
    settings.intra_op_num_threads = threads
    settings.inter_op_num_threads = 1
    session = ort.InferenceSession(
        helper_bytes(onnx, graph), settings,
        providers=["CPUExecutionProvider"])
    y = torch.empty(m, n)
    binding = session.io_binding()
    for bind, name, tensor in ((binding.bind_input, "x", x),
                               (binding.bind_output, "y", y)):
        bind(name, "cpu", 0, "float32", tuple(tensor.shape),
             tensor.data_ptr())
    session.run_with_iobinding(binding)
    torch.testing.assert_close(y, F.linear(x, w), rtol=1e-3, atol=1e-3)
    # x, w and y live as long as the case.
    return harness.loop("run(binding)", run=session.run_with_iobinding,
                        binding=binding, keep=(x, w, y))


def helper_bytes(onnx: Any, graph: Any) -> bytes:
    model = onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9)
    return bytes(model.SerializeToString())


def contenders(case: Case) -> Runs:
    """Each checked against float64 before it is timed."""
    x = torch.randn(case.m, case.k).to(case.dtype)
    w = (torch.randn(case.n, case.k) / math.sqrt(case.k)).to(case.dtype)
    plain = [w] + [w.clone() for _ in range(case.copies - 1)]
    packed = [ops.linear_prepack(p) for p in plain]
    found: Runs = {"opgraft": in_turn(
        "f(x, w, out_features=n)", packed, f=ops.linear_packed, x=x,
        n=case.n)}
    found["F.linear"] = in_turn("f(x, w)", plain, f=F.linear, x=x)
    wanted = F.linear(x.double(), w.double())
    results = {"opgraft": ops.linear_packed(x, packed[0], out_features=case.n)}
    onednn = torch.ops.mkldnn
    if (case.dtype == torch.float32
            or onednn._is_mkldnn_bf16_supported()):  # else it refuses to pack
        dense = [onednn._reorder_linear_weight(p, case.m) for p in plain]
        pointwise = onednn._linear_pointwise.default
        results["oneDNN"] = pointwise(x, dense[0], None, "none", [], "")
        found["oneDNN"] = in_turn("f(x, w, None, 'none', [], '')", dense,
                                  f=pointwise, x=x)
    if case.dtype == torch.float32 and not case.is_memory:
        found["ORT"] = onnx_runtime(x, w, case.threads)
    rough = 0.05 if case.dtype == torch.bfloat16 else 1e-3
    for name, result in results.items():
        error = (result.double() - wanted).abs().max().item()
        if error > rough:
            raise RuntimeError(f"{case.label}: {name} is off by {error:g}")
    return {name: warmed(run) for name, run in found.items()}


def limits_of(case: Case, limit: machine.Machine, seconds: float
              ) -> dict[str, machine.Limit]:
    """By PEAK and, of arithmetic, TILE, and a name."""
    if case.m <= FEW:
        data = torch.ones(case.copies * case.bytes_read // 4,
                          dtype=torch.float32)
        return {PEAK + n: x for n, x in limit.reading(data).items()}
    long = min(max(seconds, 1e-4), 0.02)
    return {kind + n: x for kind, found in (
        (PEAK, limit.arithmetic(case.dtype, long)),
        (TILE, limit.tile(case.dtype, long))) for n, x in found.items()}


def attempt(case: Case, runs: Runs, limits: dict[str, machine.Limit],
            options: argparse.Namespace) -> dict[str, float]:
    """One interleaved run; its minima join those of the case."""
    times = harness.measure(
        runs | {n: bound.run for n, bound in limits.items()},
        block_ns=3e5, blocks=options.blocks,
        pause_s=PAUSE_S if case.threads > 1 else 0)
    for name, timing in times.items():
        if name in limits:
            rate = limits[name].work / timing.least
            case.least[name] = max(rate, case.least.get(name, 0))
        else:
            case.least[name] = min(timing.least,
                                   case.least.get(name, math.inf))
    figures = {f"{case.label}: best rival / ours": case.ratio()}
    if case.is_memory:
        figures = {f"{case.label}: share of reading": case.share()}
    elif case.m > FEW:
        figures[f"{case.label}: share of the peak"] = case.share()
    return figures


def show(case: Case) -> None:
    words = []
    for name, value in case.least.items():
        if name.startswith((PEAK, TILE)):
            continue
        rate = f"{case.work / value:.0f} GFLOP/s"
        if case.m <= FEW:
            rate = f"{case.bytes_read / value:.0f} GB/s"
        words.append(f"{name} {value / 1e3:.1f} us {rate}")
    unit = "GB/s" if case.m <= FEW else "GFLOP/s"
    limits = f"limit {case.limit(PEAK):.0f} {unit}, ours {case.share():.0%}"
    if case.m > FEW:
        limits += (f", a tile alone {case.limit(TILE):.0f}, ours "
                   f"{case.share(TILE):.0%}")
    print(f"{case.label}: {' | '.join(words)} | {limits}, best rival / ours "
          f"{case.ratio():.2f}", flush=True)


def measure_case(case: Case, limit: machine.Machine,
                 options: argparse.Namespace, goals: harness.Goals) -> None:
    runs = contenders(case)
    runs["opgraft"](3)
    begin = time.perf_counter()
    runs["opgraft"](1)
    limits = limits_of(case, limit, time.perf_counter() - begin)
    bounds = {f"{case.label}: best rival / ours": (LEAST_RATIO, False)}
    if case.is_memory:
        bounds = {f"{case.label}: share of reading": (READ_SHARE, False)}
    elif case.m > FEW:
        bounds[f"{case.label}: share of the peak"] = (PEAK_SHARE, False)
    harness.judged(lambda: attempt(case, runs, limits, options), bounds,
                   goals, options.attempts)
    if case.least:
        show(case)


def cases_of(threads: int, options: argparse.Namespace) -> list[Case]:
    return [Case(m, n, k, dtype, threads, is_memory)
            for dtype in (torch.float32, torch.bfloat16)
            if options.dtype in (None, str(dtype).removeprefix("torch."))
            for n, k in SHAPES
            if options.shape in (None, f"{n}x{k}")
            for m in options.rows
            for is_memory in ((False, True) if m <= FEW else (False,))]


def tile_limits(cases: list[Case], threads: int, goals: harness.Goals) -> None:
    """What no product reaches more of: a tile's loads and FMA from the
    first-level cache alone, as a share of the peak."""
    for dtype in (torch.float32, torch.bfloat16):
        of = [c for c in cases if c.threads == threads and c.dtype == dtype
              and c.m > FEW and c.least]
        if of:
            goals.limit(f"{dtype}, {threads} threads: a tile alone, share of "
                        "the peak", max(c.limit(TILE) for c in of)
                        / max(c.limit(PEAK) for c in of))


def mean_ratio(cases: list[Case], goals: harness.Goals) -> None:
    ratios = [c.ratio() for c in cases if c.least and not c.is_memory]
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        goals.add(f"best rival / ours, geometric mean of {len(ratios)}", mean,
                  MEAN_RATIO, at_most=False)


def part_name(options: argparse.Namespace) -> str:
    """gemm, or with what this run is restricted to."""
    words = ["gemm", os.environ.get("OPGRAFT_ISA"), options.dtype,
             options.shape,
             len(options.threads) == 1 and f"{options.threads[0]}t",
             options.rows != ROWS and "m" + "-".join(map(str, options.rows))]
    return "_".join(w for w in words if w)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true",
                        help="one short attempt, to see that it runs")
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--dtype", choices=["float32", "bfloat16"],
                        help="only this one")
    parser.add_argument("--shape", choices=[f"{n}x{k}" for n, k in SHAPES],
                        help="only this one, N x K")
    parser.add_argument("--rows", type=int, nargs="*", default=ROWS)
    parser.add_argument("--blocks", type=int, default=25)
    parser.add_argument("--attempts", type=int, default=harness.ATTEMPTS)
    options = parser.parse_args()
    if options.smoke:
        options.rows, options.shape = [1, 16], "768x768"
        options.blocks, options.attempts = harness.LEAST_BLOCKS, 1
    goals = harness.Goals(part_name(options))
    done: list[Case] = []
    with torch.inference_mode():
        for threads in options.threads:
            torch.set_num_threads(threads)
            limit = machine.Machine()
            print(f"\n{threads} threads, {limit.isa}")
            for case in cases_of(threads, options):
                measure_case(case, limit, options, goals)
                done.append(case)
            tile_limits(done, threads, goals)
    mean_ratio(done, goals)
    if not options.smoke:
        goals.write([*(ROOT / "src" / "kernel").glob("*"),
                     ROOT / "ops" / "linear.c"],
                    {"least_ns": {c.label: c.least for c in done}})


if __name__ == "__main__":
    main()
