#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The small operators and fused_moe against eager PyTorch and Inductor, at 1,
16 and 256 tokens, in one interleaved run.

At one token the same operator also runs on almost nothing: what a call costs
before it works. Eager's time over that is the most that any kernel could gain;
where an operator of peers/move.c reads and writes the same, eager's time over
that one's is nearer to what can be had.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable

sys.path.insert(0, str(Path(__file__).resolve().parent))
import harness  # noqa: E402
import machine  # noqa: E402
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from harness import loop  # noqa: E402

import call  # noqa: E402
import opgraft  # noqa: E402
from opgraft import ops  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
TOKENS = (1, 16, 256)
MOE_TOKENS = (1, 16, 64, 256)


def rope_eager(q: Any, k: Any, cos: Any, sin: Any) -> Any:
    def turn(x: Any) -> Any:
        a, b = x.chunk(2, -1)
        return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)

    return turn(q), turn(k)


def topk_eager(x: Any) -> Any:
    return torch.topk(torch.softmax(x.float(), -1), 2)


def add_norm_eager(x: Any, residual: Any, w: Any) -> Any:
    residual.add_(x)
    x.copy_(F.rms_norm(residual, (x.shape[-1],), w, 1e-6))


class Case:
    """One operator at one size: arguments, and an expression a contender."""

    def __init__(
        self, ours: str, eager: str, bytes_moved: int, /, **names: Any
    ) -> None:
        self.ours, self.eager, self.names = ours, eager, names
        self.bytes_moved = bytes_moved

    def mover(self, moves: Any) -> Callable[[int], Any] | None:
        """The operator of peers/move.c that moves the same, if there is one."""
        x, w = self.names.get("x"), self.names.get("w")
        if self.names["ours"] is ops.layer_norm:
            return loop("f(x, w, w)", f=moves.rows, x=x, w=w)
        if self.names["ours"] in (ops.silu_and_mul, ops.gelu_tanh_and_mul):
            return loop("f(x)", f=moves.halves, x=x)
        return None


@dataclass
class Sizes:
    width: int = 4096
    inner: int = 8192
    heads: int = 32
    kv_heads: int = 8
    head_size: int = 128
    experts: int = 64


LEAST = Sizes(width=16, inner=16, heads=1, kv_heads=1, head_size=16, experts=2)


def cases(tokens: int, dtype: torch.dtype,
          sizes: Sizes | None = None) -> dict[str, Case]:
    """The names are those of the usual sizes."""
    s = sizes or Sizes()

    def rand(*shape: int) -> torch.Tensor:
        return torch.randn(*shape).to(dtype)

    es = torch.empty(0, dtype=dtype).element_size()
    x, w = rand(tokens, s.width), rand(s.width)
    wide = rand(tokens, 2 * s.inner)
    q, k = (rand(tokens, n, s.head_size) for n in (s.heads, s.kv_heads))
    positions, half = torch.arange(tokens), s.head_size // 2
    angle = positions[:, None, None] * 1e4 ** (-torch.arange(half) / half)
    cos, sin = angle.cos().to(dtype), angle.sin().to(dtype)
    row = tokens * s.width * es
    return {
        "rms_norm 4096": Case(
            "ours(x, w)", f"rms(x, ({s.width},), w, 1e-6)", 2 * row,
            ours=ops.rms_norm, rms=F.rms_norm, x=x, w=w),
        "layer_norm 4096": Case(
            "ours(x, w, w)", f"norm(x, ({s.width},), w, w)", 2 * row,
            ours=ops.layer_norm, norm=F.layer_norm, x=x, w=w),
        "fused_add_rms_norm 4096": Case(
            "ours(x, y, w)", "eager(x, y, w)", 4 * row,
            ours=ops.fused_add_rms_norm, eager=add_norm_eager, x=x,
            y=rand(tokens, s.width), w=w),
        "silu_and_mul 8192": Case(
            "ours(x)", f"silu(x[:, :{s.inner}]) * x[:, {s.inner}:]",
            3 * tokens * s.inner * es, ours=ops.silu_and_mul, silu=F.silu,
            x=wide),
        "gelu_tanh_and_mul 8192": Case(
            "ours(x)", f"gelu(x[:, :{s.inner}], approximate='tanh') "
            f"* x[:, {s.inner}:]",
            3 * tokens * s.inner * es, ours=ops.gelu_tanh_and_mul, gelu=F.gelu,
            x=wide),
        "apply_rope 32+8 x 128": Case(
            "ours(q, k, p)", "rope(q, k, cos, sin)",
            2 * (q.numel() + k.numel()) * es, ours=ops.apply_rope,
            rope=rope_eager, q=q, k=k, p=positions, cos=cos, sin=sin),
        "topk_softmax 64 to 2": Case(
            "ours(x, 2)", "topk(x)", tokens * s.experts * es,
            ours=ops.topk_softmax, topk=topk_eager,
            x=rand(tokens, s.experts)),
    }


def inductor(case: Case) -> Callable[[int], Any] | None:
    """The eager expression as one compiled function of its tensors."""
    tensors = [n for n, v in case.names.items() if isinstance(v, torch.Tensor)]
    space = {n: v for n, v in case.names.items() if n not in tensors}
    exec(f"def run({', '.join(tensors)}): return {case.eager}", space)
    try:
        compiled = torch.compile(space["run"], dynamic=False)
        values = {n: case.names[n] for n in tensors}
        compiled(**values)
    except Exception as error:
        print(f"  Inductor left out: {str(error).splitlines()[0][:120]}")
        return None
    return loop(f"run({', '.join(tensors)})", run=compiled, **values)


def judge_small(
    goals: harness.Goals, label: str, tokens: int, bytes_moved: int,
    times: dict[str, harness.Timing], read: float
) -> None:
    ours = times["opgraft"].least
    best = min(t.least for n, t in times.items() if n in ("eager", "Inductor"))
    if tokens == 1:
        eager = times["eager"].least
        goals.add(f"{label}: eager / ours", eager / ours, 5, at_most=False)
        goals.limit(f"{label}: eager / a call on almost nothing",
                    eager / times["empty call"].least)
        if "moved" in times:
            goals.limit(f"{label}: eager / moving the same data",
                        eager / times["moved"].least)
    elif tokens == 256:
        share = bytes_moved / ours / read
        if share >= 0.85:
            goals.add(f"{label}: share of bandwidth", share, 0.85,
                      at_most=False)
        else:
            goals.add(f"{label}: better rival / ours", best / ours, 1.2,
                      at_most=False)


def small(options: argparse.Namespace, moves: Any, goals: harness.Goals
          ) -> None:
    read = machine.Machine().bandwidth()
    for dtype in (torch.float32, torch.bfloat16):
        kind = str(dtype).removeprefix("torch.")
        for tokens in TOKENS:
            for name, case in cases(tokens, dtype).items():
                label = f"{name} {kind} T={tokens}"
                runs = {"opgraft": loop(case.ours, **case.names),
                        "eager": loop(case.eager, **case.names)}
                if tokens == 1:
                    least = cases(1, dtype, LEAST)[name]
                    runs["empty call"] = loop(least.ours, **least.names)
                    mover = case.mover(moves)
                    if mover is not None:
                        runs["moved"] = mover
                compiled = inductor(case) if options.inductor else None
                if compiled is not None:
                    runs["Inductor"] = compiled
                try:
                    times = harness.measure(runs, block_ns=1e6)
                except harness.TooNoisy:
                    goals.noisy(label)
                    continue
                harness.print_table(label, times, 1e3, "us")
                judge_small(goals, label, tokens, case.bytes_moved, times,
                            read)


def moe_eager(
    x: torch.Tensor, w13: torch.Tensor, w2: torch.Tensor,
    weights: torch.Tensor, ids: torch.Tensor
) -> torch.Tensor:
    out = torch.zeros_like(x)
    for expert in range(w13.shape[0]):
        token, slot = (ids == expert).nonzero(as_tuple=True)
        if token.numel() == 0:
            continue
        gate, up = F.linear(x[token], w13[expert]).chunk(2, -1)
        y = F.linear(F.silu(gate) * up, w2[expert])
        out.index_add_(0, token, y * weights[token, slot, None].to(y.dtype))
    return out


def moe(options: argparse.Namespace, goals: harness.Goals) -> None:
    experts, topk, width, inner = 8, 2, 1024, 2048
    machine_limit = machine.Machine()
    read = machine_limit.bandwidth()
    for dtype in (torch.float32, torch.bfloat16):
        kind = str(dtype).removeprefix("torch.")
        w13 = (torch.randn(experts, 2 * inner, width) / 32).to(dtype)
        w2 = (torch.randn(experts, width, inner) / 45).to(dtype)
        p13, p2 = ops.fused_moe_prepack(w13), ops.fused_moe_prepack(w2)
        fma = machine_limit.flops(dtype)
        for tokens in MOE_TOKENS:
            label = f"fused_moe {kind} M={tokens}"
            x = torch.randn(tokens, width).to(dtype)
            weights, ids = ops.topk_softmax(
                torch.randn(tokens, experts), topk, True)
            runs = {
                "opgraft": loop("f(x, a, b, w, i, inner=n)", f=ops.fused_moe,
                                x=x, a=p13, b=p2, w=weights, i=ids, n=inner),
                "expert loop": loop("f(x, a, b, w, i)", f=moe_eager, x=x,
                                    a=w13, b=w2, w=weights, i=ids),
            }
            try:
                times = harness.measure(runs, block_ns=1e6)
            except harness.TooNoisy:
                goals.noisy(label)
                continue
            harness.print_table(label, times, 1e3, "us")
            ratio = times["expert loop"].least / times["opgraft"].least
            bound = 3 if dtype == torch.float32 and 16 <= tokens <= 64 else 1
            goals.add(f"{label}: expert loop / ours", ratio, bound,
                      at_most=False)
            weights_read = ids.unique().numel() * 3 * width * inner
            least = max(weights_read * w2.element_size() / read,
                        tokens * topk * 6 * width * inner / fma)
            goals.limit(f"{label}: expert loop / reading the weights once, or "
                        "FMA at its peak",
                        times["expert loop"].least / least)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--inductor", action="store_true",
                        help="also compiled (slow to start)")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.smoke:
        global TOKENS, MOE_TOKENS
        TOKENS, MOE_TOKENS = (16,), (16,)
    goals = harness.Goals(
        "ops" if options.threads == 2 else f"ops_{options.threads}t")
    with tempfile.TemporaryDirectory() as name, torch.no_grad():
        call.compile_c(call.PEERS / "move.c", Path(name) / "move.so")
        small(options, opgraft.load(Path(name) / "move.so"), goals)
        moe(options, goals)
    if not options.smoke:
        goals.write([*(ROOT / "src" / "kernel").glob("*"),
                     *(ROOT / "ops").glob("*.c"), call.PEERS / "move.c"])


if __name__ == "__main__":
    main()
