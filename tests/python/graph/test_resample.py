# SPDX-License-Identifier: Apache-2.0
"""Resizing, averages over windows and gather by the engine's fast kernels, held
against float64."""

from __future__ import annotations

import functools
import random
from typing import Any

import pytest
import torch
from compare import no_worse
from torch.nn import functional as F

import opgraft

T = torch.Tensor


class Run(torch.nn.Module):
    def __init__(self, run: Any) -> None:
        super().__init__()
        self.run = run

    def forward(self, x: T) -> T:
        return self.run(x)


def who(f: Any, operator: str) -> str:
    line = next(line for line in str(opgraft.stats(f).rules()).splitlines()
                if line.startswith(operator))
    return line.split(": ")[1].split()[0]


def sized(r: random.Random) -> dict[str, Any]:
    if r.random() < 0.5:
        return {"size": (r.randint(1, 40), r.randint(1, 40))}
    return {"scale_factor": (r.choice([2.0, 0.5, 1.7, 3.0]),
                             r.choice([2.0, 0.6, 4.0])),
            "recompute_scale_factor": r.choice([None, True])}


def resized(seed: int) -> tuple[str, Any]:
    r = random.Random(seed)
    mode = r.choice(["nearest", "bilinear", "bicubic"])
    given = sized(r)
    if mode != "nearest":
        given["align_corners"] = r.choice([True, False])
    return f"upsample_{mode}2d", lambda x: F.interpolate(x, mode=mode, **given)


def averaged(seed: int) -> tuple[str, Any]:
    r = random.Random(seed)
    if r.random() < 0.3:
        size = r.randint(2, 9), r.randint(2, 30)
        return "adaptive_avg_pool2d", lambda x: F.adaptive_avg_pool2d(x, size)
    if r.random() < 0.2:
        return "avg_pool2d", lambda x: F.avg_pool2d(x, x.shape[2:])
    kernel = r.randint(1, 6), r.randint(1, 6)
    given: dict[str, Any] = {
        "stride": (r.randint(1, 3), r.randint(1, 3)),
        "padding": (r.randint(0, kernel[0] // 2), r.randint(0, kernel[1] // 2)),
        "ceil_mode": r.random() < 0.5, "count_include_pad": r.random() < 0.5,
        "divisor_override": r.choice([None, None, 3])}
    return "avg_pool2d", lambda x: F.avg_pool2d(x, kernel, **given)


@pytest.mark.parametrize("make", [resized, averaged])
@pytest.mark.parametrize("seed", range(10))
def test_drawn(seed: int, make: Any) -> None:
    operator, run = make(seed)
    r = random.Random(seed)
    torch.manual_seed(seed)
    torch._dynamo.reset()
    options = {"mode": "max-autotune", "tune_s": 0}
    x = torch.randn(2, 3, r.randint(6, 20), r.randint(6, 40))
    # torch.compile takes resizing apart before a backend sees it.
    f = opgraft.freeze(Run(run), (x,), options=options)
    no_worse(f(x), run(x), run(x.double()), slack=2e-7)
    assert who(f, operator) == "fast"
    x[0, 0, 2, 3], x[1, 1, -1, -1] = float("inf"), float("nan")
    torch.testing.assert_close(f(x), run(x), equal_nan=True)
    f = torch.compile(run, backend="opgraft", dynamic=seed % 4 == 0,
                      options=options)
    for y in x.nan_to_num(1, 2), torch.randn(2, 3, 9, 11).to(
            memory_format=torch.channels_last):
        torch.testing.assert_close(f(y), run(y))
        assert f(y).stride() == run(y).stride()


@pytest.mark.parametrize("seed", range(10))
def test_gather(seed: int) -> None:
    r = random.Random(seed)
    torch.manual_seed(seed)
    torch._dynamo.reset()
    shape = [r.randint(2, 40) for _ in range(r.randint(2, 4))]
    dim = r.randrange(len(shape))
    kind = r.choice([torch.float32, torch.float64, torch.bfloat16, torch.int8])
    x = torch.randint(-100, 100, shape).to(kind)
    if seed % 2:
        x = x.transpose(0, -1).contiguous().transpose(0, -1)
    reach = [r.randint(1, s) for s in shape]
    reach[dim] = max(r.randint(1, 60), 2048 // max(1, torch.Size(reach).numel()))
    index = torch.randint(shape[dim], reach)
    if r.random() < 0.5:
        index = index[:1].expand(reach)

    def run(x: T, index: T) -> T:
        return x.gather(dim, index)

    f = torch.compile(run, backend="opgraft", dynamic=False)
    assert torch.equal(f(x, index), run(x, index))
    if torch.Size(reach).numel() >= 1024:
        assert who(f, "gather") == "fast"
    index = index.clone()
    index[tuple(s - 1 for s in reach)] = r.choice([-1, shape[dim]])
    with pytest.raises(RuntimeError, match="out of (range|bounds)"):
        f(x, index)


@pytest.mark.full
@pytest.mark.parametrize("check", [
    functools.partial(test_drawn, make=resized),
    functools.partial(test_drawn, make=averaged), test_gather])
def test_many(check: Any, rounds: Any) -> None:
    rounds(lambda seed: check(seed) or 1, 200)
