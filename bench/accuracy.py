#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How far from float64 our reductions are, beside ATen's: those of the graph
engine (forward and backward, compiled), its contractions without a host
(`opgraft run`), and those of the operator library.

The reference is eager mode in float64 on the same numbers. A distance is the
root mean square of a tensor's error over several draws, relative to that of the
reference, and at least that of rounding the reference to the type: nothing can
be nearer, and one rounding may be luck. The figure of a tensor is our distance
over ATen's. All of it takes an hour: --minutes ends a run early, --missing goes
on where docs/results/accuracy.json ends.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import sysconfig
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Iterator

import harness
import numpy as np
import results
import torch
import torch.nn.functional as F

import opgraft

ROOT = Path(__file__).resolve().parents[1]
EACH, MEAN = 2.0, 1.2
WORST = 12  # rows that are printed

Tensors = tuple[torch.Tensor, ...]
Shapes = list[tuple[int, ...]]
Maker = Callable[[tuple[int, ...], torch.Generator], torch.Tensor]


# --- Numbers ------------------------------------------------------------------


def normal(shape: tuple[int, ...], g: torch.Generator) -> torch.Tensor:
    return torch.randn(shape, generator=g)


def large_mean(shape: tuple[int, ...], g: torch.Generator) -> torch.Tensor:
    return torch.randn(shape, generator=g) + 1000


def alternating(shape: tuple[int, ...], g: torch.Generator) -> torch.Tensor:
    """1, -1, 1, ... of nearly one size."""
    x = 1 + 0.01 * torch.randn(shape, generator=g)
    return x * (1 - 2 * (torch.arange(x.numel()) % 2)).reshape(shape)


def positive(shape: tuple[int, ...], g: torch.Generator) -> torch.Tensor:
    return torch.rand(shape, generator=g) + 0.5


def near_one(shape: tuple[int, ...], g: torch.Generator) -> torch.Tensor:
    """Products stay in range."""
    return 1 + torch.randn(shape, generator=g) / math.prod(shape) ** 0.5


NUMBERS: dict[str, Maker] = {"normal": normal, "mean 1000": large_mean,
                             "alternating": alternating}


# --- Cases --------------------------------------------------------------------


@dataclass
class Case:
    """f(x, *rest): gradients are taken of `x` and what follows, where `trained`."""

    name: str
    f: Callable[..., Any]
    shapes: Shapes
    rest: Callable[[tuple[int, ...]], Shapes] = lambda s: []
    numbers: dict[str, Maker] = field(default_factory=lambda: dict(NUMBERS))
    trained: bool = True
    layouts: tuple[str, ...] = ("dense", "strided")


FLAT: Shapes = [(1000,), (100_000,), (10_000_000,)]
TABLE: Shapes = [(40, 25), (320, 310), (3200, 3125)]
SMALL: Shapes = [(3, 24, 1, 1), (2, 24, 3, 3)]  # where gradients cancel most
IMAGES: Shapes = [(4, 8, 5, 6), (8, 16, 28, 28), (16, 32, 140, 140)]


def channels(shape: tuple[int, ...]) -> Shapes:
    return [(shape[1],), (shape[1],)]


def features(shape: tuple[int, ...]) -> Shapes:
    return [(shape[-1],), (shape[-1],)]


def batch_norm(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> Any:
    mean, var = torch.zeros_like(w), torch.ones_like(w)
    y = F.batch_norm(x, mean, var, w, b, training=True, momentum=1.0)
    return y, mean, var


def nll(x: torch.Tensor) -> torch.Tensor:
    target = torch.arange(x.shape[0]) % x.shape[1]
    return F.cross_entropy(x, target)


TAMED: dict[str, Maker] = {"near one": near_one}
ABOVE: dict[str, Maker] = {"positive": positive, "mean 1000": large_mean}


def sums() -> list[Case]:
    """Sums, moments, norms, products, and running ones."""
    return [
        Case("sum", torch.sum, FLAT),
        Case("sum rows", lambda x: x.sum(-1), TABLE),
        Case("sum columns", lambda x: x.sum(0), TABLE),
        Case("sum of channels", lambda x: x.sum((0, 2, 3)), IMAGES),
        Case("mean", torch.mean, FLAT),
        Case("mean rows", lambda x: x.mean(-1), TABLE),
        Case("var", torch.var, FLAT),
        Case("var rows", lambda x: x.var(-1), TABLE),
        Case("var columns", lambda x: x.var(0), TABLE),
        Case("var_mean rows", lambda x: torch.var_mean(x, -1), TABLE),
        Case("std", torch.std, FLAT),
        Case("norm 1", lambda x: x.norm(1, -1), TABLE),
        Case("norm 2", torch.norm, FLAT),
        Case("norm 2 rows", lambda x: x.norm(2, -1), TABLE),
        Case("norm 3", lambda x: torch.linalg.vector_norm(x, 3, -1), TABLE),
        Case("prod", torch.prod, FLAT, numbers=TAMED),
        Case("prod rows", lambda x: x.prod(-1), TABLE, numbers=TAMED),
        Case("cumsum", lambda x: x.cumsum(0), FLAT),
        Case("cumsum columns", lambda x: x.cumsum(0), TABLE),
        Case("cumprod", lambda x: x.cumprod(0), FLAT, numbers=TAMED),
    ]


def normalizers() -> list[Case]:
    """Sums inside another function of the row."""
    return [
        Case("logsumexp", lambda x: torch.logsumexp(x, -1), TABLE),
        Case("softmax", lambda x: x.softmax(-1), TABLE + FLAT),
        Case("log_softmax", lambda x: x.log_softmax(-1), TABLE + FLAT),
        Case("softmax columns", lambda x: x.softmax(0), TABLE),
        Case("cross_entropy", nll, TABLE),
        Case("normalize", lambda x: F.normalize(x, dim=-1), TABLE),
        Case("mse_loss", lambda x, y: F.mse_loss(x, y), TABLE,
             lambda s: [s]),
        Case("dot", lambda x, y: (x * y).sum(), FLAT, lambda s: [s]),
        Case("layer_norm", lambda x, w, b: F.layer_norm(x, w.shape, w, b),
             TABLE, features),
        Case("group_norm", lambda x, w, b: F.group_norm(x, 4, w, b), IMAGES,
             channels),
        Case("batch_norm", batch_norm, SMALL + IMAGES + TABLE, channels,
             layouts=("dense", "strided", "channels_last")),
        Case("batch_norm eval", lambda x, w, b: F.batch_norm(
            x, w.detach() + 1, w.detach() ** 2 + 1, w, b), IMAGES, channels),
        Case("geometric mean", lambda x: x.log().mean().exp(), FLAT,
             numbers=ABOVE),
    ]


def scattered() -> list[Case]:
    """Sums over windows, and over places that an index names."""
    return [
        Case("avg_pool2d", lambda x: F.avg_pool2d(x, 4), IMAGES),
        Case("adaptive_avg_pool2d", lambda x: F.adaptive_avg_pool2d(x, 1),
             IMAGES),
        Case("embedding gradient", lambda x: F.embedding(
            torch.arange(20 * x.shape[0]) % 7 % x.shape[0], x), TABLE),
        Case("index_add", lambda x: torch.zeros_like(x[:5]).index_add(
            0, torch.arange(x.shape[0]) % 5, x), TABLE),
        Case("scatter_add", lambda x: torch.zeros_like(x[:5]).scatter_add(
            0, (torch.arange(x.shape[0]) % 5)[:, None].expand_as(x), x),
            TABLE),
    ]


# --- Distances ----------------------------------------------------------------


@dataclass
class Total:
    """Squares of errors and of the reference, over the draws."""

    ours: float = 0
    theirs: float = 0
    rounding: float = 0
    worst: float = 0

    def add(self, found: torch.Tensor, eager: torch.Tensor,
            exact: torch.Tensor) -> None:
        scale = exact.square().sum().item()
        if exact.numel() == 0 or scale == 0:
            return
        unit = torch.finfo(eager.dtype).eps / 2
        self.ours += (found.double() - exact).square().sum().item() / scale
        self.theirs += (eager.double() - exact).square().sum().item() / scale
        self.rounding += unit * unit

    @property
    def ratio(self) -> float:
        return math.sqrt(max(self.ours, self.rounding)
                         / max(self.theirs, self.rounding))


def tensors(found: Any) -> Tensors:
    return (found,) if isinstance(found, torch.Tensor) else tuple(found)


def with_gradients(f: Callable[..., Any], inputs: list[torch.Tensor],
                   trained: bool) -> Tensors:
    """Results, then the gradients of all inputs under one that is a function
    of the result's place."""
    own = [x.detach().requires_grad_(trained) for x in inputs]
    results = tensors(f(*own))
    if not trained:
        return results
    grads = [torch.sin(torch.arange(r.numel(), dtype=torch.float64) + 1)
             .reshape(r.shape).float().to(r.dtype)
             for r in results if r.requires_grad]
    asked = [r for r in results if r.requires_grad]
    return tuple(r.detach() for r in results) + torch.autograd.grad(
        asked, own, grads)


def laid_out(x: torch.Tensor, layout: str) -> torch.Tensor:
    """The same numbers: dense; channels last; or not contiguous, every second
    one of a larger tensor whose dims are turned round."""
    if layout == "dense":
        return x
    if layout == "channels_last":
        return x.movedim(1, -1).contiguous().movedim(-1, 1)
    room = torch.zeros([2 * n for n in reversed(x.shape)], dtype=x.dtype)
    view = room.permute(*reversed(range(x.dim())))
    view = view[tuple(slice(None, None, 2) for _ in range(x.dim()))]
    return view.copy_(x)


def rows_of(case: Case, dtype: torch.dtype, smoke: bool
            ) -> Iterator[tuple[str, Total]]:
    # bfloat16 sums of 10^7 numbers say nothing that 10^5 do not.
    shapes = case.shapes[:1] if smoke else [
        s for s in case.shapes
        if dtype == torch.float32 or math.prod(s) <= 100_000]
    for shape in shapes:
        torch._dynamo.reset()  # more compiles than its limit run in eager mode
        compiled = torch.compile(case.f, backend="opgraft", dynamic=False)
        draws = 1 if smoke or math.prod(shape) > 1_000_000 else 5
        for layout in case.layouts[:1] if smoke else case.layouts:
            for kind, make in case.numbers.items():
                totals: dict[int, Total] = {}
                for seed in range(draws):
                    g = torch.Generator().manual_seed(seed)
                    x = laid_out(make(shape, g).to(dtype), layout)
                    rest = [normal(s, g).to(dtype) for s in case.rest(shape)]
                    high = [t.double() for t in [x, *rest]]
                    found = with_gradients(compiled, [x, *rest], case.trained)
                    eager = with_gradients(case.f, [x, *rest], case.trained)
                    exact = with_gradients(case.f, high, case.trained)
                    for i, three in enumerate(
                            zip(found, eager, exact, strict=True)):
                        totals.setdefault(i, Total()).add(*three)
                name = str(dtype).removeprefix("torch.")
                for i, total in totals.items():
                    yield (f"{case.name} {list(shape)} {name} {layout} "
                           f"{kind}, tensor {i}", total)


# --- Without a host -----------------------------------------------------------


class Contraction(torch.nn.Module):
    def __init__(self, f: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.f = f

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.f(x, y)


def contractions(smoke: bool) -> Iterator[tuple[str, Total]]:
    program = Path(sysconfig.get_path("scripts")) / "opgraft"
    cases = {
        "mm without a host": (torch.mm, (7, 2000), (2000, 9)),
        "mm of 10^5 without a host": (torch.mm, (3, 100_000), (100_000, 2)),
        "bmm without a host": (torch.bmm, (3, 5, 700), (3, 700, 4)),
        "conv2d without a host": (F.conv2d, (2, 24, 12, 12), (5, 24, 3, 3)),
    }
    for name, (f, a, b) in list(cases.items())[:1 if smoke else None]:
        for kind, make in NUMBERS.items():
            g = torch.Generator().manual_seed(3)
            x, y = make(a, g), normal(b, g)
            with tempfile.TemporaryDirectory() as folder:
                graph, x_file, y_file, out = (
                    str(Path(folder) / n)
                    for n in ("m.og", "x.npy", "y.npy", "out.npy"))
                opgraft.export(Contraction(f), (x, y), graph)
                np.save(x_file, x.numpy())
                np.save(y_file, y.numpy())
                subprocess.run([str(program), "run", graph, "--in", x_file,
                                "--in", y_file, "--out", out], check=True,
                               capture_output=True)
                found = torch.from_numpy(np.load(out))
            total = Total()
            total.add(found, f(x, y), f(x.double(), y.double()))
            yield f"{name} {kind}", total


# --- The operator library -----------------------------------------------------


def library(smoke: bool) -> Iterator[tuple[str, Total]]:
    from opgraft import ops
    pairs: dict[str, tuple[Any, Any, int]] = {
        "rms_norm": (ops.rms_norm, lambda x, w: F.rms_norm(
            x, w.shape, w, 1e-6), 1),
        "layer_norm": (ops.layer_norm, lambda x, w, b: F.layer_norm(
            x, w.shape, w, b), 2),
        "gemma_rms_norm": (ops.gemma_rms_norm, lambda x, w: F.rms_norm(
            x, w.shape, 1 + w, 1e-6), 1),
        "linear": (ops.linear, lambda x, w: F.linear(x, w[None]), 1),
    }
    for name, (own, theirs, vectors) in pairs.items():
        for shape in TABLE[:1] if smoke else TABLE:
            for kind, make in NUMBERS.items():
                for dtype in (torch.float32, torch.bfloat16):
                    g = torch.Generator().manual_seed(1)
                    inputs = [make(shape, g).to(dtype)] + [
                        normal(shape[-1:], g).to(dtype)
                        for _ in range(vectors)]
                    if name == "linear":
                        def call(x: Any, w: Any) -> Any:
                            return ops.linear(x, w[None])
                    else:
                        call = own
                    found = with_gradients(call, inputs, True)
                    eager = with_gradients(theirs, inputs, True)
                    exact = with_gradients(
                        theirs, [t.double() for t in inputs], True)
                    for i, three in enumerate(
                            zip(found, eager, exact, strict=True)):
                        total = Total()
                        total.add(*three)
                        yield (f"ops.{name} {list(shape)} "
                               f"{str(dtype).removeprefix('torch.')} {kind}, "
                               f"tensor {i}", total)


# --- All of it, part by part --------------------------------------------------

Part = Callable[[bool], Iterator[tuple[str, Total]]]
MEASURED = ["src/exec", "src/kernel", "ops"]
KEPT = ROOT / "docs/results/accuracy.json"


def parts() -> dict[str, Part]:
    """What is measured at a time, the quick ones first."""
    out: dict[str, Part] = {"contractions without a host": contractions,
                            "operator library": library}
    for dtype in (torch.float32, torch.bfloat16):
        for case in [*sums(), *normalizers(), *scattered()]:
            def one(smoke: bool, case: Case = case,
                    dtype: torch.dtype = dtype) -> Any:
                return rows_of(case, dtype, smoke)
            out[f"{case.name} {str(dtype).removeprefix('torch.')}"] = one
    return out


def measure(part: Part, smoke: bool) -> dict[str, Any]:
    ratios = {name: total.ratio for name, total in part(smoke)}
    worst = sorted(ratios.items(), key=lambda r: -r[1])[:WORST]
    return {"tensors": len(ratios), "hash": results.hash_of(MEASURED),
            "logs": sum(math.log(r) for r in ratios.values()),
            "worst": {name: round(r, 4) for name, r in worst}}


def kept_parts(missing: bool) -> dict[str, Any]:
    if not missing or not KEPT.exists():
        return {}
    known = results.hash_of(MEASURED)
    return {name: row for name, row in
            json.loads(KEPT.read_text()).get("parts", {}).items()
            if row["hash"] == known}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true",
                        help="the smallest shapes, one draw")
    parser.add_argument("--minutes", type=float, default=math.inf, metavar="N",
                        help="begin no part after so many")
    parser.add_argument("--missing", action="store_true",
                        help="keep what docs/results/accuracy.json has of the "
                        "same sources")
    options = parser.parse_args()
    end = time.monotonic() + 60 * options.minutes
    every, found = parts(), kept_parts(options.missing)
    for name, part in every.items():
        if name in found or time.monotonic() > end:
            continue
        found[name] = measure(part, options.smoke)
        top = max(found[name]["worst"].values())
        print(f"{name}: {found[name]['tensors']} tensors, worst {top:.2f}",
              flush=True)
    return judge(every, found, options.smoke)


def judge(every: dict[str, Part], found: dict[str, Any], smoke: bool) -> int:
    goals = harness.Goals("accuracy")
    tensors = sum(row["tensors"] for row in found.values())
    worst = sorted(((n, r) for row in found.values()
                    for n, r in row["worst"].items()), key=lambda r: -r[1])
    print(f"\nour distance over ATen's, {tensors} tensors, the worst")
    for name, ratio in worst[:WORST]:
        print(f"  {ratio:6.2f}  {name}")
    goals.add("the worst tensor's distance over ATen's", worst[0][1], EACH)
    goals.add("geometric mean of the distances over ATen's", math.exp(
        sum(row["logs"] for row in found.values()) / tensors), MEAN)
    goals.add("parts measured", len(found), len(every), at_most=False)
    if not smoke:
        goals.write(MEASURED, {"tensors": tensors, "parts": found})
    return int(any(line["verdict"] != "holds" for line in goals.lines))


if __name__ == "__main__":
    sys.exit(main())
