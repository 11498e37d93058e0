#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the polynomials of src/loop/expand.c and tables.c: minimax fits with
coefficients that are floats. Needs numpy and mpmath.

A fit is a weighted least-squares fit on Chebyshev nodes, whose weights are
raised where the error is large until it is level (Lawson's algorithm). The
coefficients are rounded from the constant term up; those that are left are
fitted again after each."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import mpmath as mp  # type: ignore[import-untyped]
import numpy as np

mp.mp.prec = 120
NODES = 600


@dataclasses.dataclass
class Fit:
    name: str
    value: Callable[[mp.mpf], mp.mpf]  # what the polynomial stands for
    # The error of the result for an error of 1 in the polynomial.
    weight: Callable[[mp.mpf], mp.mpf]
    degree: int
    low: float
    high: float


def solve(x: np.ndarray, value: np.ndarray, weight: np.ndarray,
          fixed: list[float], degree: int) -> np.ndarray:
    """The coefficients from len(fixed) up."""
    first = len(fixed)
    rest = value - sum(c * x ** k for k, c in enumerate(fixed))
    scale = float(np.max(np.abs(x)))
    matrix = np.stack([(x / scale) ** k for k in range(first, degree + 1)], 1)
    level = np.ones_like(x)
    best: tuple[float, np.ndarray] | None = None
    for _ in range(60):
        root = np.sqrt(level) * weight
        found = np.linalg.lstsq(matrix * root[:, None], rest * root,
                                rcond=None)[0]
        error = np.abs(matrix @ found - rest) * weight
        if best is None or error.max() < best[0]:
            best = error.max(), found
        level *= error / error.max() + 1e-3
        level /= level.max()
    assert best is not None
    return best[1] / scale ** np.arange(first, degree + 1)


def run(fit: Fit) -> None:
    middle, half = (fit.high + fit.low) / 2, (fit.high - fit.low) / 2
    x = middle + half * np.cos(np.pi * (np.arange(NODES) + 0.5) / NODES)
    x = x[x != 0]
    value = np.array([float(fit.value(mp.mpf(v))) for v in x])
    weight = np.array([abs(float(fit.weight(mp.mpf(v)))) for v in x])
    fixed: list[float] = []
    for _ in range(fit.degree + 1):
        free = solve(x, value, weight, fixed, fit.degree)
        fixed.append(float(np.float32(free[0])))
    error = np.abs(sum(c * x ** k for k, c in enumerate(fixed)) - value)
    print(f"{fit.name}: relative error {np.max(error * weight):.2e}")
    for k in reversed(range(len(fixed))):
        print(f"    {fixed[k].hex()}f,")


HALF_LN2 = float(mp.log(2)) / 2 * 1.01
LOW, HIGH = float(mp.sqrt(0.5)) - 1, float(mp.sqrt(2)) - 1
QUARTER = float(mp.pi) / 4 * 1.08


def log_rest(base: float) -> Callable[[mp.mpf], mp.mpf]:
    """log(1 + f) / f less the float that leads it."""
    lead = float(np.float32(1 / float(mp.log(base))))
    return lambda f: mp.log1p(f) / mp.log(base) / f - lead


FITS = [
    Fit("exp: (e^r - 1 - r) / r^2", lambda r: (mp.expm1(r) - r) / r ** 2,
        lambda r: r ** 2 / mp.exp(r), 4, -HALF_LN2, HALF_LN2),
    Fit("exp2: (2^r - 1) / r", lambda r: mp.expm1(r * mp.log(2)) / r,
        lambda r: r / 2 ** r, 6, -0.505, 0.505),
    Fit("expm1: (e^r - 1 - r) / r^2", lambda r: (mp.expm1(r) - r) / r ** 2,
        lambda r: r ** 2 / mp.expm1(r), 5, -HALF_LN2, HALF_LN2),
    Fit("log", lambda f: (mp.log1p(f) / f - 1) / f,
        lambda f: f ** 2 / mp.log1p(f), 8, LOW, HIGH),
    Fit("log2", log_rest(2), lambda f: f / mp.log1p(f), 9, LOW, HIGH),
    Fit("log10", log_rest(10), lambda f: f / mp.log1p(f), 9, LOW, HIGH),
    Fit("tanh of s = x^2: (tanh(x) - x) / x^3",
        lambda s: (mp.tanh(mp.sqrt(s)) - mp.sqrt(s)) / mp.sqrt(s) ** 3,
        lambda s: mp.sqrt(s) ** 3 / mp.tanh(mp.sqrt(s)), 5, 1e-9, 0.625 ** 2),
    Fit("sin of s = r^2: (sin(r) - r) / r^3",
        lambda s: (mp.sin(mp.sqrt(s)) - mp.sqrt(s)) / mp.sqrt(s) ** 3,
        lambda s: mp.sqrt(s) ** 3 / mp.sin(mp.sqrt(s)), 3, 1e-9, QUARTER ** 2),
    Fit("cos of s = r^2: (cos(r) - 1 + r^2 / 2) / r^4",
        lambda s: (mp.cos(mp.sqrt(s)) - 1 + s / 2) / s ** 2,
        lambda s: s ** 2 / mp.cos(mp.sqrt(s)), 2, 1e-4, QUARTER ** 2),
]

ERF_DEGREE, ERF_WIDTH, ERF_PIECES = 6, 17 / 32, 8


def erf_piece(piece: int) -> list[float]:
    """erf(middle + t) - lead t as a polynomial in t; the coefficients and the
    lead, which is 1 in the first piece: there t is erf's first term."""
    middle, half = piece * ERF_WIDTH, ERF_WIDTH / 2
    low, lead = (1e-4, 1.0) if piece == 0 else (-half, 0.0)
    t = (half + low) / 2 + (half - low) / 2 * np.cos(
        np.pi * (np.arange(NODES) + 0.5) / NODES)
    exact = [mp.erf(middle + mp.mpf(v)) for v in t]
    value = np.array([float(e - lead * mp.mpf(v)) for e, v in zip(exact, t)])
    weight = np.array([1 / float(e) for e in exact])
    fixed = [0.0] if piece == 0 else []
    while len(fixed) <= ERF_DEGREE:
        free = solve(t, value, weight, fixed, ERF_DEGREE)
        fixed.append(float(np.float32(free[0])))
    error = np.abs(sum(c * t ** k for k, c in enumerate(fixed)) - value)
    print(f"erf, piece {piece}: relative error {np.max(error * weight):.2e}")
    return [*fixed, lead]


def erf_print() -> None:
    pieces = [erf_piece(k) for k in range(ERF_PIECES)]
    for k in range(ERF_DEGREE + 2):
        texts = [p[k].hex().replace("0000000p", "p") for p in pieces]
        print("    {" + ", ".join(f"{t}f" for t in texts) + "},")


if __name__ == "__main__":
    for each in FITS:
        run(each)
    erf_print()
