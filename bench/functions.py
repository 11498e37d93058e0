#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The errors of the functions of fused loops, in units in the last place of
f32, over arguments of every size, beside eager mode's.

Every 61st float is an argument, 70 million in all; the reference is PyTorch's
function in float64. A figure is the largest error, of all arguments and of each
exponent. sigmoid is 0 where exp(-x) is not finite in f32, for both. Writes
docs/pictures/functions.png, where matplotlib is there.
"""

from __future__ import annotations

import argparse
import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Iterator

sys.path.append(str(Path(__file__).resolve().parent))
import harness  # noqa: E402
import torch  # noqa: E402

import opgraft  # noqa: E402

T = torch.Tensor
STEP, SMOKE_STEP = 61, 999_983
BLOCK = 1 << 21  # arguments
EXPONENTS = 256  # of either sign
STATED = 2.0
SHOWN = 2.5  # units, at most, in the picture
PICTURE = Path(__file__).resolve().parents[1] / "docs/pictures/functions.png"
MEASURED = ["bench/functions.py", "src/loop", "src/scalar", "src/kernel"]


def sigmoid(x: T) -> T:
    if x.dtype != torch.float64:
        return torch.sigmoid(x)
    return torch.where(torch.exp(-x).float().isinf(), 0.0, torch.sigmoid(x))


FUNCTIONS: dict[str, Callable[[T], T]] = {
    "exp": torch.exp, "exp2": torch.exp2, "expm1": torch.expm1,
    "log": torch.log, "log2": torch.log2, "log10": torch.log10,
    "log1p": torch.log1p, "tanh": torch.tanh, "erf": torch.erf,
    "sigmoid": sigmoid, "sin": torch.sin, "cos": torch.cos,
    "rsqrt": torch.rsqrt, "x ** 3": lambda x: x ** 3,
    "x ** -0.5": lambda x: x ** -0.5}


def arguments(step: int) -> Iterator[T]:
    """Every `step`th float, NaNs and infinities too, in blocks of one size."""
    for begin in range(0, 1 << 32, step * BLOCK):
        bits = (begin + step * torch.arange(BLOCK, dtype=torch.int64)) % 2**32
        yield bits.to(torch.uint32).view(torch.float32)


def units(found: T, wanted: T) -> T:
    """Of each element; infinite where only one is a NaN, an infinity, or zero
    of that sign."""
    exact = torch.where(wanted.abs() > torch.finfo(torch.float32).max
                        * (1 + 2.0**-25), wanted.sign() * math.inf, wanted)
    exponent = torch.frexp(exact)[1].clamp(min=-125)
    exponent[exact == 0] = -125
    off = (found.double() - exact).abs() / torch.ldexp(
        torch.ones_like(exact), exponent - 24)
    is_same = (found.double() == exact) | (found.isnan() & exact.isnan())
    off[is_same] = 0
    off[off.isnan()] = math.inf
    off[(found == 0) & (exact == 0) & (found.signbit() != exact.signbit())
        ] = math.inf
    return off


@dataclass
class Errors:
    """The largest by sign and exponent, and where the largest of all is."""

    by_exponent: T
    largest: float = 0.0
    at: float = 0.0

    def add(self, x: T, off: T) -> None:
        places = (x.view(torch.int32) >> 23) & (2 * EXPONENTS - 1)
        self.by_exponent.scatter_reduce_(0, places.long(), off, "amax")
        top = int(off.argmax())
        if float(off[top]) > self.largest:
            self.largest, self.at = float(off[top]), float(x[top])


def compiled(f: Callable[[T], T]) -> Callable[[T], T]:
    """Our row program, whoever were faster."""
    torch._dynamo.reset()
    made: Callable[[T], T] = torch.compile(
        f, backend="opgraft", dynamic=False,
        options={"mode": "max-autotune", "tune_s": 0})
    made(torch.ones(BLOCK))
    programs = [p for g in opgraft.stats(made).graphs for p in g["programs"]]
    if len(programs) != 1:
        raise RuntimeError(f"{len(programs)} row programs, expected 1")
    return made


def measure(f: Callable[[T], T], step: int) -> dict[str, Errors]:
    forms = {"ours": compiled(f), "eager": f}
    found = {who: Errors(torch.zeros(2 * EXPONENTS, dtype=torch.float64))
             for who in forms}
    for x in arguments(step):
        wanted = f(x.double())
        for who, form in forms.items():
            found[who].add(x, units(form(x), wanted))
    return found


def places() -> list[float]:
    """Where an exponent stands on the axis: negative arguments left, the
    smallest in the middle."""
    return [i if i < EXPONENTS else EXPONENTS - 1 - i
            for i in range(2 * EXPONENTS)]


def picture(found: dict[str, dict[str, Errors]], path: Path) -> None:
    try:
        import matplotlib
    except ImportError as error:
        print(f"no picture: {error}")
        return
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    ticks = {"-2^100": -228, "-1": -128, "0": 0, "1": 127, "2^100": 227}
    order = sorted(range(2 * EXPONENTS), key=lambda i: places()[i])
    figure, axes = plt.subplots(5, 3, figsize=(14, 14), layout="constrained",
                                sharex=True, sharey=True)
    for axis, (name, errors) in zip(axes.flat, found.items()):
        for who, colour in (("eager", "#b0b0b0"), ("ours", "#2f6fc4")):
            axis.plot([places()[i] for i in order],
                      [min(float(errors[who].by_exponent[i]), SHOWN)
                       for i in order], color=colour, linewidth=1, label=who)
        axis.axhline(STATED, color="#cf222e", linewidth=0.8, linestyle="--")
        axis.set_title(f"{name}: at most {errors['ours'].largest:.2f}",
                       fontsize=10)
        axis.set_ylim(0, SHOWN * 1.05)
        axis.set_xticks(list(ticks.values()), list(ticks), fontsize=8)
        axis.grid(color="#eeeeee")
    axes[0, 0].legend(fontsize=8)
    figure.supxlabel("argument")
    figure.supylabel("largest error of its exponent, units in the last place")
    figure.savefig(path, dpi=90)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--smoke", action="store_true",
                        help="few arguments, to see that it runs")
    words = parser.parse_args()
    step = SMOKE_STEP if words.smoke else STEP
    torch.set_grad_enabled(False)
    goals = harness.Goals("functions")
    found: dict[str, dict[str, Errors]] = {}
    rows: dict[str, Any] = {}
    for name, f in FUNCTIONS.items():
        found[name] = measure(f, step)
        rows[name] = {who: {"ulp": e.largest, "at": e.at}
                      for who, e in found[name].items()}
        own, eager = found[name]["ours"], found[name]["eager"]
        print(f"  {name}: {own.largest:.3f} at {own.at:g}, eager "
              f"{eager.largest:.3f} at {eager.at:g}", flush=True)
    for name, errors in found.items():
        goals.add(f"{name}, largest error", errors["ours"].largest, STATED,
                  unit=" ulp")
    if not words.smoke:
        goals.write(MEASURED, {"functions": rows})
        picture(found, PICTURE)


if __name__ == "__main__":
    main()
