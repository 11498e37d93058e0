# SPDX-License-Identifier: Apache-2.0
"""Reductions, norms and softmaxes of very small, very large and special rows,
beside eager and float64.

Where eager is as float64 is, so are we. Where it is not, we are as one of them,
or nearer to float64, or give an infinity or a NaN: never another number.
"""

from __future__ import annotations

import functools
import random
from typing import Any, Callable

import pytest
import torch
from alone import results_of
from recorded import Call

aten = torch.ops.aten
T = torch.Tensor
INF, NAN = float("inf"), float("nan")
ROWS, SEED = 32, 1

# --- Rows ---------------------------------------------------------------------


def row(dice: random.Random, width: int, top: float) -> T:
    """Of one scale, in one of several forms; `top` is the type's largest."""
    g = torch.Generator().manual_seed(dice.getrandbits(32))
    x = torch.randn(width, generator=g, dtype=torch.float64).clamp(-3, 3) / 3
    scale = dice.choice((1e-44, 1e-40, 1e-38, 1e-30, 1e-25, 1e-22, 1e-20, 1e-19,
                         1e-10, 1.0, 1e4, 1e10, 1e17, 4e18, 1e19, 2e19, 1e20,
                         1e25, 1e30))
    largest = min(1e30, top)
    x *= min(scale, top)
    form = dice.randrange(8)
    if form == 1:
        x = x[:1].expand(width).clone()
    elif form == 2:
        x = x.abs().max() * (1 + 1e-3 * x / x.abs().max()) / 2
    elif form == 3:
        x[dice.randrange(width)] = dice.choice(
            (INF, -INF, NAN, largest, -largest))
    elif form == 4:
        x[::2] *= 1e-6
    elif form == 5:
        x = x.abs()
    return x


def rows_of(dice: random.Random, width: int, dtype: torch.dtype) -> T:
    top = torch.finfo(dtype).max
    return torch.stack([row(dice, width, top)
                        for _ in range(ROWS)]).to(dtype)


def reductions(x: T, dim: int) -> list[tuple[Any, ...]]:
    each: list[tuple[Any, ...]] = [
        (aten.sum.dim_IntList, x, [dim]), (aten.mean.dim, x, [dim]),
        (aten.prod.dim_int, x, dim), (aten.amax.default, x, [dim]),
        (aten.amin.default, x, [dim]), (aten.any.dim, x, dim),
        (aten.all.dim, x, dim), (aten.argmax.default, x, dim),
        (aten.argmin.default, x, dim), (aten.max.dim, x, dim),
        (aten.min.dim, x, dim), (aten.cumsum.default, x, dim),
        (aten.cumprod.default, x, dim), (aten._softmax.default, x, dim, False),
        (aten._log_softmax.default, x, dim, False),
        (aten.logsumexp.default, x, [dim])]
    each += [(aten.linalg_vector_norm.default, x, order, [dim])
             for order in (0, 1, 2, 3, INF, -INF)]
    return each


def spreads(x: T, dim: int) -> list[Call]:
    return [Call(op, (x, [dim]), {"correction": correction})
            for op in (aten.var.correction, aten.var_mean.correction,
                       aten.std.correction)
            for correction in (0, 1)]


def norms(x: T, draw: Callable[[int], T]) -> list[tuple[Any, ...]]:
    count, width = x.shape
    weight, bias = draw(width), draw(width)
    image = x.reshape(4, 8, width)
    stats = draw(8), draw(8).abs() + 0.5
    # Without an epsilon the spread of denormal rows is few bits.
    normal = torch.where(x.abs().amax(1, True) < 1e-31, draw(1), x)
    return [(aten.native_layer_norm.default, x, [width], weight, bias, 1e-5),
            (aten.native_layer_norm.default, normal, [width], None, None, 0.0),
            (aten.native_group_norm.default, image, draw(8), draw(8), 4, 8,
             width, 2, 1e-5),
            (aten._native_batch_norm_legit_no_training.default, image, draw(8),
             draw(8), *stats, 0.1, 1e-5),
            (aten._native_batch_norm_legit.no_stats, image, draw(8), draw(8),
             True, 0.1, 1e-5)]


def gradients(x: T, grad: T, weight: T) -> list[Call]:
    """Of what forward gives in float64, in the rows' type; of rows whose spread
    is more than their rounding."""
    std, mean = torch.std_mean(x.double(), 1, correction=0,
                               keepdim=True)
    x = torch.where(std > 0.1 * mean.abs(), x, grad)
    softmax = aten._softmax.default(x, 1, False)
    mean = x.double().mean(1, True).to(x.dtype)
    rstd = (x.double().var(1, keepdim=True, correction=0) + 1e-5).rsqrt()
    width = x.shape[1]
    return [
        Call(aten._softmax_backward_data.default,
             (grad, softmax, 1, x.dtype), {}),
        Call(aten._log_softmax_backward_data.default,
             (grad, softmax.log(), 1, x.dtype), {}),
        Call(aten.native_layer_norm_backward.default,
             (grad, x, [width], mean, rstd.to(x.dtype), weight, weight,
              [True, True, True]), {})]


def calls_of(dice: random.Random, width: int, dtype: torch.dtype
             ) -> list[Call]:
    x = rows_of(dice, width, dtype)
    g = torch.Generator().manual_seed(dice.getrandbits(32))

    def draw(*shape: int) -> T:
        return torch.randn(shape, generator=g).to(dtype)

    layouts = (x, 1), (x.t(), 0), (x, 0)
    calls = [Call(op, tuple(args), {}) for y, dim in layouts
             for op, *args in reductions(y, dim)]
    calls += [c for y, dim in layouts for c in spreads(y, dim)]
    calls += [Call(op, tuple(args), {}) for op, *args in norms(x, draw)]
    return calls + gradients(x, draw(*x.shape), draw(width))


# --- Comparing ----------------------------------------------------------------

EPS = {torch.float32: 1e-4, torch.bfloat16: 4e-2, torch.float16: 4e-3}


# Of these it is the distance to the largest number that counts, which rounding
# does not change much.
EXACT_DIFFERENCES = {aten._softmax.default, aten._log_softmax.default}


def in_double(x: Any) -> Any:
    if isinstance(x, torch.Tensor) and x.is_floating_point():
        return x.double()
    return torch.float64 if isinstance(x, torch.dtype) else x


def shaken(x: Any, by: float, g: torch.Generator) -> Any:
    """The numbers, each off by a rounding or two: how far a result then moves,
    rounding may move it."""
    if not isinstance(x, torch.Tensor) or not x.is_floating_point():
        return x
    off = torch.randn(x.shape, generator=g, dtype=torch.float64).clamp(-2, 2)
    return x * (1 + by * off)


def near(a: T, b: T, slack: T, right: T) -> T:
    least = 4 * torch.finfo(a.dtype).smallest_normal * torch.finfo(a.dtype).eps
    off = EPS[a.dtype] * right.abs() + slack + least
    close = (a.double() - b.double()).abs() <= off
    beyond = a.isinf() & (right.abs() + off > torch.finfo(a.dtype).max)
    # A mean with an infinity in it is that, or a NaN.
    return close | beyond | (a == b) | (right.isnan() & ~a.isfinite())


NORMS_OF_ROWS = {aten.native_layer_norm.default,
                 aten.native_group_norm.default}


def mean_slack(call: Call, exact: tuple[T, T, T]) -> T | float:
    """The mean is rounded to f32, which shaken numbers do not show: all of a
    row are then off by that, times a weight of 4 at most."""
    if call.target not in NORMS_OF_ROWS:
        return 0.0
    y, mean, rstd = exact
    off = 4 * torch.finfo(torch.float32).eps * (mean * rstd).abs()
    return off.flatten().repeat_interleave(
        y.numel() // off.numel()).view(y.shape).nan_to_num(0.0, INF)


def wrong_places(call: Call, found: list[T]) -> list[str]:
    eager = call.run()
    wide = call.with_leaves(in_double)
    off = EPS[eager[0].dtype if eager[0].dtype in EPS else torch.float32] / 100
    exact = wide.run()
    others = [wide.with_leaves(functools.partial(
        shaken, by=off, g=torch.Generator().manual_seed(seed))).run()
        for seed in range(3)]
    problems = []
    for k, (a, e, d, *o) in enumerate(zip(found, eager, exact, *others,
                                          strict=True)):
        changes = torch.stack([x.double() - d.double() for x in o]).abs()
        if call.target in EXACT_DIFFERENCES:
            changes.zero_()
        assert a.dtype == e.dtype and a.shape == e.shape
        if not a.is_floating_point():
            wrong = (a != e) & (a != d) & (changes == 0).all(0)
        else:
            right = d.to(a.dtype)
            slack = 30 * changes.nan_to_num(0.0, INF, INF).amax(0)
            if k == 0:
                slack = slack + mean_slack(call, exact)
            is_right = near(a, right, slack, d)
            eager_right = near(e, right, slack, d)
            fits = near(a, e, slack, d) | ~a.isfinite() | (
                (a.double() - d).abs() <= (e.double() - d).abs())
            # Rounding alone decides whether it is a number.
            unsure = (d.isnan() != torch.stack(o).isnan()).any(0)
            wrong = ~(is_right | unsure | (~eager_right & fits))
        for at in wrong.flatten().nonzero().flatten().tolist()[:1]:
            problems.append(
                f"{call.target}, result {k} at {at} is "
                f"{a.flatten()[at].item()!r}, eager "
                f"{e.flatten()[at].item()!r}, float64 "
                f"{d.flatten()[at].item()!r}")
    return problems


MODES = ("default", "max-autotune")


def extremes_check(dtype: torch.dtype, width: int, seed: int) -> int:
    calls = calls_of(random.Random(seed), width, dtype)
    problems, count = [], 0
    for mode in MODES:
        for call, found in zip(calls, results_of(calls, mode), strict=True):
            count += sum(a.numel() for a in found)
            problems += [f"{mode}, {dtype}, width {width}, seed {seed}: {p}"
                         for p in wrong_places(call, found)]
    assert not problems, "\n".join(problems)
    return count


@pytest.mark.parametrize(("dtype", "width"), [
    (torch.float32, 40), (torch.bfloat16, 19), (torch.float16, 7)], ids=str)
def test_extremes(dtype: torch.dtype, width: int) -> None:
    extremes_check(dtype, width, SEED)


@pytest.mark.full
@pytest.mark.parametrize("dtype", list(EPS), ids=str)
def test_many(dtype: torch.dtype, rounds: Any) -> None:
    widths = (1, 2, 7, 16, 33, 300)
    rounds(lambda seed: extremes_check(dtype, widths[seed % len(widths)], seed),
           240)
