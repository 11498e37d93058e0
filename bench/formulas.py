#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Formulas beside our hand kernels, Inductor's kernel of the same function, and
eager PyTorch, in one interleaved run: results in cache and from memory, forward
and with the gradient, f32 and bf16; and the time from a text to a first result.
"""

from __future__ import annotations

import argparse
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
from harness import loop  # noqa: E402

import opgraft  # noqa: E402
from opgraft import ops  # noqa: E402

ROWS = {"cache": 16, "memory": 16384}  # of 4096 elements
WIDTH = 4096
FIRST_MS = 1.0
PASSES = "forward", "backward"
NORM_SHAPE = "x[*N, D], weight[D] -> [*N, D]"


@dataclass
class Case:
    """What a formula says, and the same by others."""

    schema: str
    row: str
    eager: Callable[..., Any]
    hand: Callable[..., Any] | None = None
    weights: int = 0  # rows beside x
    shape: str | None = None
    read: int = 1  # streams of the result's size

    def define(self, name: str, row: str | None = None) -> Any:
        return opgraft.define(self.schema.replace("f(", f"{name}(", 1),
                              row=row or self.row, shape=self.shape)


CASES = {
    "softcap": Case("f(Tensor x, float cap=30.0) -> Tensor",
                    "cap * tanh(x / cap)", lambda x: 30 * torch.tanh(x / 30)),
    "softmax": Case("f(Tensor x) -> Tensor",
                    "e = exp(x - row_max(x)); y = e / row_sum(e)",
                    lambda x: torch.softmax(x, -1), shape="x[*N, D] -> [*N, D]"),
    "rms_norm": Case("f(Tensor x, Tensor weight, float eps=1e-6) -> Tensor",
                     "y = x * (1 / sqrt(row_mean(x * x) + eps)) * weight",
                     lambda x, w: F.rms_norm(x, w.shape, w, 1e-6),
                     ops.rms_norm, 1, NORM_SHAPE),
    "layer_norm": Case(
        "f(Tensor x, Tensor weight, Tensor bias) -> Tensor",
        "c = x - row_mean(x); "
        "y = c * (1 / sqrt(row_mean(c * c) + 1e-5)) * weight + bias",
        lambda x, w, b: F.layer_norm(x, w.shape, w, b), ops.layer_norm, 2,
        "x[*N, D], weight[D], bias[D] -> [*N, D]"),
    "silu_and_mul": Case("f(Tensor x) -> Tensor",
                         "a, b = halves(x); y = a * sigmoid(a) * b",
                         lambda x: F.silu(x.chunk(2, -1)[0])
                         * x.chunk(2, -1)[1],
                         ops.silu_and_mul, shape="x[*N, D] -> [*N, D // 2]",
                         read=2),
}


def trained(f: Callable[..., Any], grad: torch.Tensor) -> Callable[..., Any]:
    def run(*of: torch.Tensor) -> Any:
        return torch.autograd.grad(f(*of), of, grad)
    return run


def first_results(goals: harness.Goals) -> None:
    """From a text that nobody has seen to the first result."""
    x = torch.randn(16, WIDTH)
    for name, case in CASES.items():
        of = (x, *(torch.randn(WIDTH) for _ in range(case.weights)))
        least = float("inf")
        for k in range(harness.LEAST_BLOCKS):
            row = case.row.replace("; y =", f"; z = {k}; y =")
            begin = time.perf_counter_ns()
            case.define(f"first_{name}_{k}", row)(*of)
            least = min(least, (time.perf_counter_ns() - begin) / 1e6)
        goals.add(f"{name}: text to first result", least, FIRST_MS, unit=" ms")


def passes(case: Case, size: int, has_gradient: bool
           ) -> dict[str, Callable[[int], Any]]:
    """The streams of each pass: operands and result; then operands, the
    result's gradient and theirs."""
    streams = {"forward": (case.read, 1)}
    if has_gradient:
        streams["backward"] = (case.read + 1, case.read)
    return {run.replace("limit", f"limit {name}"): call
            for name, (read, written) in streams.items()
            for run, call in machine.streams(read, written, size).items()}


def judge(goals: harness.Goals, label: str, where: str,
          times: dict[str, harness.Timing]) -> None:
    ours = times["formula"].least
    if "hand kernel" in times:
        goals.add(f"{label}: formula / hand kernel",
                  ours / times["hand kernel"].least, 1.05)
    if where == "cache" and "Inductor" in times:
        goals.add(f"{label}: formula / Inductor",
                  ours / times["Inductor"].least, 0.9)
    if where == "memory":
        least = sum(min(t.least for n, t in times.items()
                        if n.startswith(f"limit {pass_}"))
                    for pass_ in PASSES if f"limit {pass_} stores" in times)
        goals.add(f"{label}: limit / ours", least / ours, 0.85,
                  at_most=False)
    goals.limit(f"{label}: formula / eager", ours / times["eager"].least)


def compare(options: argparse.Namespace, goals: harness.Goals, name: str,
            dtype: torch.dtype, where: str, formula: Any) -> None:
    case = CASES[name]
    x = torch.randn(ROWS[where], WIDTH).to(dtype)
    of = (x, *(torch.randn(WIDTH).to(dtype) for _ in range(case.weights)))
    contenders = {"formula": formula, "eager": case.eager}
    if case.hand is not None:
        contenders["hand kernel"] = case.hand
    if options.inductor:
        contenders["Inductor"] = torch.compile(case.eager, dynamic=False)
    y = case.eager(*of)
    grad = torch.randn_like(y)
    for has_gradient in (False, True):
        label = (f"{name} {str(dtype).removeprefix('torch.')} {where}"
                 f"{', trained' if has_gradient else ''}")
        inputs = tuple(t.detach().requires_grad_(has_gradient) for t in of)
        runs = {who: loop(f"f({', '.join(f'a{k}' for k in range(len(of)))})",
                          f=trained(f, grad) if has_gradient else f,
                          **{f"a{k}": t for k, t in enumerate(inputs)})
                for who, f in contenders.items()}
        if where == "memory":
            runs |= passes(case, y.nbytes, has_gradient)
        try:
            times = harness.measure(runs, block_ns=1e6)
        except harness.TooNoisy:
            goals.noisy(label)
            continue
        harness.print_table(label, times, 1e3, "us")
        judge(goals, label, where, times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true",
                        help="one formula in cache, to see that it runs")
    parser.add_argument("--inductor", action="store_true",
                        help="also compiled (slow to start)")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    goals = harness.Goals(f"formulas_{options.threads}t")
    harness.memory_keep()
    for name in list(CASES)[2:3] if options.smoke else CASES:
        formula = CASES[name].define(name)
        for dtype in (torch.float32, torch.bfloat16):
            for where in ("cache",) if options.smoke else ROWS:
                compare(options, goals, name, dtype, where, formula)
    first_results(goals)
    if not options.smoke:
        goals.write(["bench/formulas.py", "src/decl", "src/loop"])


if __name__ == "__main__":
    main()
