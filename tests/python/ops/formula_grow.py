# SPDX-License-Identifier: Apache-2.0
"""Random formulas, and what they are in float64, with a bound of the error.

    python formula_grow.py OUT.npz FIRST COUNT [c]

computes them by opgraft; with c as a module that `opgraft build` has made.

A formula is built of values; each says its text and, by NumPy, its float64
value with how far f32 arithmetic may be from it (first order, of every
operation's own rounding and of what its operands bring).
"""

from __future__ import annotations

import random
import sys
from dataclasses import dataclass
from typing import Any, Callable

import numpy as np

Array = np.ndarray[Any, Any]
UNIT = 2.0 ** -24
ROWS = 70  # more than one block of a sum over rows
TABLE = 6  # rows of the table
TYPES = ("x: f32, w: f32, c: f32, z: f32, i: int64, b: f32, j: int64 "
         "-> f32, f32, f32")


@dataclass
class Value:
    text: str
    exact: Array
    error: Array


def rounded(text: str, exact: Array, error: Array, units: float = 1.0) -> Value:
    """A result of `units` half units in the last place of its own error."""
    own = error + np.abs(exact) * UNIT * units + 1e-44
    return Value(text, exact, np.where(np.abs(exact) < 1e37, own, np.inf))


def add(a: Value, b: Value) -> Value:
    return rounded(f"({a.text} + {b.text})", a.exact + b.exact,
                   a.error + b.error)


def subtract(a: Value, b: Value) -> Value:
    return rounded(f"({a.text} - {b.text})", a.exact - b.exact,
                   a.error + b.error)


def multiply(a: Value, b: Value) -> Value:
    return rounded(f"{a.text} * {b.text}", a.exact * b.exact,
                   np.abs(a.exact) * b.error + np.abs(b.exact) * a.error
                   + a.error * b.error)


def divide(a: Value, b: Value) -> Value:
    room = np.abs(b.exact) - b.error
    room = np.where(room > 0, room, 0)
    exact = a.exact / b.exact
    return rounded(f"{a.text} / {b.text}", exact,
                   (a.error + np.abs(exact) * b.error) / room)


def larger(a: Value, b: Value) -> Value:
    return Value(f"max({a.text}, {b.text})", np.maximum(a.exact, b.exact),
                 np.maximum(a.error, b.error))


def less(a: Value, b: Value) -> Value:
    unsure = np.abs(a.exact - b.exact) <= a.error + b.error
    return Value(f"({a.text} < {b.text})",
                 (a.exact < b.exact).astype(np.float64), unsure.astype(float))


def choose(c: Value, a: Value, b: Value) -> Value:
    error = np.where(c.exact != 0, a.error, b.error)
    apart = np.abs(a.exact - b.exact) + a.error + b.error
    return Value(f"select({c.text}, {a.text}, {b.text})",
                 np.where(c.exact != 0, a.exact, b.exact),
                 np.where(c.error > 0, apart, error))


def tanh(a: Value) -> Value:
    return rounded(f"tanh({a.text})", np.tanh(a.exact), a.error, 4)


def sigmoid(a: Value) -> Value:
    exact = 1 / (1 + np.exp(-a.exact))
    return rounded(f"sigmoid({a.text})", exact, a.error / 4 + 1e-37, 6)


def exponential(a: Value) -> Value:
    exact = np.exp(a.exact)
    return rounded(f"exp({a.text})", exact, exact * np.expm1(a.error), 4)


def root(a: Value) -> Value:
    exact = np.sqrt(np.abs(a.exact))
    low = np.sqrt(np.maximum(np.abs(a.exact) - a.error, 0))
    return rounded(f"sqrt(abs({a.text}))", exact,
                   np.where(low > 0, a.error / (exact + low),
                            np.sqrt(a.error)))


def erf(a: Value) -> Value:
    from math import erf as one

    return rounded(f"erf({a.text})", np.vectorize(one)(a.exact),
                   1.2 * a.error, 4)


UNARY = [tanh, sigmoid, exponential, root, erf]
BINARY = [add, subtract, multiply, multiply, add, divide, larger, less]


def row_sum(a: Value, width: int) -> Value:
    wide = np.broadcast_to(a.exact, (ROWS, width))
    error = np.broadcast_to(a.error, (ROWS, width))
    size = np.abs(wide).sum(-1, keepdims=True)
    return rounded(f"row_sum({a.text})", wide.sum(-1, keepdims=True),
                   error.sum(-1, keepdims=True) + size * UNIT * width)


def row_mean(a: Value, width: int) -> Value:
    total = row_sum(a, width)
    return rounded(f"row_mean({a.text})", total.exact / width,
                   total.error / width)


def sum_rows(a: Value, width: int) -> Value:
    wide = np.broadcast_to(a.exact, (ROWS, width))
    error = np.broadcast_to(a.error, (ROWS, width)).sum(0)
    return rounded(f"sum_rows({a.text})", wide.sum(0),
                   error + np.abs(wide).sum(0) * UNIT * ROWS)


def pick(a: Value, index: Array, width: int) -> Value:
    wide = np.broadcast_to(a.exact, (ROWS, width))
    error = np.broadcast_to(a.error, (ROWS, width))
    return Value(f"pick({a.text}, i)",
                 np.take_along_axis(wide, index[:, None], 1),
                 np.take_along_axis(error, index[:, None], 1))


def row_max(a: Value, width: int) -> Value:
    wide = np.broadcast_to(a.exact, (ROWS, width))
    error = np.broadcast_to(a.error, (ROWS, width))
    return Value(f"row_max({a.text})", wide.max(-1, keepdims=True),
                 error.max(-1, keepdims=True))


def row_argmax(a: Value, width: int) -> Value:
    """Known where its operand is."""
    wide = np.broadcast_to(a.exact, (ROWS, width))
    is_known = (np.broadcast_to(a.error, (ROWS, width)) == 0).all(
        -1, keepdims=True)
    return Value(f"row_argmax({a.text})",
                 wide.argmax(-1)[:, None].astype(np.float64),
                 np.where(is_known, 0, np.inf))


def row_cumsum(a: Value, width: int) -> Value:
    """Added in f64, and rounded."""
    wide = np.broadcast_to(a.exact, (ROWS, width))
    error = np.broadcast_to(a.error, (ROWS, width))
    return rounded(f"row_cumsum({a.text})", wide.cumsum(-1), error.cumsum(-1),
                   2)


def row_cumsum_reversed(a: Value, width: int) -> Value:
    turned = Value(a.text, np.broadcast_to(a.exact, (ROWS, width))[:, ::-1],
                   np.broadcast_to(a.error, (ROWS, width))[:, ::-1])
    found = row_cumsum(turned, width)
    return Value(f"row_cumsum_reversed({a.text})", found.exact[:, ::-1],
                 found.error[:, ::-1])


def round_to(a: Value) -> Value:
    """What is lost is an error."""
    size = np.abs(a.exact) + a.error
    lost = size * 2.0 ** -11 + 2.0 ** -25
    return Value(f"round_to({a.text}, f16)", a.exact,
                 np.where(size < 6e4, a.error + lost, np.inf))


def add_rows(a: Value, index: Array, width: int) -> Value:
    wide = np.broadcast_to(a.exact, (ROWS, width))
    error = np.broadcast_to(a.error, (ROWS, width))
    found, bound, size = (np.zeros((TABLE, width)) for _ in range(3))
    for to, of in ((found, wide), (bound, error), (size, np.abs(wide))):
        np.add.at(to, index, of)
    return rounded(f"add_rows({a.text}, j)", found, bound + size * UNIT)


REDUCTIONS: list[Callable[[Value, int], Value]] = [
    row_sum, row_mean, row_max, row_argmax]


@dataclass
class Formula:
    row: str
    shape: str
    schema: str
    tensors: list[Array]
    number: float
    values: list[Value]  # of the results

    def exact(self) -> list[tuple[Array, Array]]:
        found = []
        for value, size in zip(self.values, (
                self.tensors[0].shape, self.tensors[1].shape,
                (TABLE, self.tensors[1].shape[0]))):
            error = np.where(np.isnan(value.error), np.inf, value.error)
            found.append((np.broadcast_to(value.exact, size),
                          np.broadcast_to(error, size)))
        return found


def value_of(text: str, numbers: Array) -> Value:
    exact = numbers.astype(np.float64)
    return Value(text, exact, np.zeros_like(exact))


def grow(seed: int, more: bool = True) -> Formula:
    """With `more` it has parts of rows, indices and sums over rows, too."""
    with np.errstate(all="ignore"):
        return _grow(seed, more)


def _grow(seed: int, more: bool) -> Formula:
    draw, numbers = random.Random(seed), np.random.default_rng(seed)
    width = draw.choice([1, 5, 16, 33, 100])
    tensors = [numbers.normal(size=size).astype(np.float32)
               for size in ((ROWS, width), (width,), (ROWS, 1))]
    number = draw.choice([0.5, -1.25, 3.0])
    known = [value_of("x", tensors[0]), value_of("w", tensors[1]),
             value_of("c", tensors[2]), value_of("k", np.array([number]))]
    known.append(value_of("2", np.array([2.0])))
    known.append(value_of("column", np.arange(width)))
    known.append(value_of("row", np.arange(ROWS)[:, None]))
    statements = []
    index = numbers.integers(0, width, ROWS)
    if more:
        split = draw.choice(["halves", "pairs"])
        chosen = numbers.integers(0, TABLE - 1, ROWS)  # the last has no row
        tensors += [numbers.normal(size=(ROWS, 2 * width)).astype(np.float32),
                    index,
                    numbers.normal(size=(TABLE, width)).astype(np.float32),
                    chosen]
        both = tensors[3]
        parts = ((both[:, ::2], both[:, 1::2]) if split == "pairs"
                 else (both[:, :width], both[:, width:]))
        statements.append(f"p, q = {split}(z)")
        known += [value_of("p", parts[0]), value_of("q", parts[1]),
                  value_of("b[j]", tensors[5][chosen])]
    for n in range(draw.randint(1, 6)):
        a, b, c = (draw.choice(known) for _ in range(3))
        kind = draw.random()
        if kind < 0.25:
            value = draw.choice(REDUCTIONS)(a, width)
        elif kind < 0.45:
            value = draw.choice(UNARY)(a)
        elif more and kind < 0.5:
            value = pick(a, index, width)
        elif kind < 0.53:
            value = draw.choice([row_cumsum, row_cumsum_reversed])(a, width)
        elif kind < 0.54:
            value = round_to(a)
        elif kind < 0.58:
            value = choose(less(a, b), b, c)
        else:
            value = draw.choice(BINARY)(a, b)
        if draw.random() < 0.3:  # within the next expression, else by name
            known.append(Value(f"({value.text})", value.exact, value.error))
            continue
        statements.append(f"v{n} = {value.text}")
        known.append(Value(f"v{n}", value.exact, value.error))
    last = add(multiply(known[-1], known[0]), draw.choice(known))
    statements.append(f"y = {last.text}")
    if not more:
        return Formula("; ".join(statements), "x[R, D], w[D], c[R, 1] -> [R, D]",
                       f"f{seed}(Tensor x, Tensor w, Tensor c, float k) -> "
                       "Tensor", tensors, number, [last])
    total = sum_rows(draw.choice(known), width)
    statements.append(f"t = {total.text}")
    added = add_rows(draw.choice(known), chosen, width)
    statements.append(f"u = {added.text}")
    return Formula(
        "; ".join(statements),
        "x[R, D], w[D], c[R, 1], z[R, E], i[R], b[V, D], j[R] "
        "-> [R, D], [D], [V, D]",
        f"f{seed}(Tensor x, Tensor w, Tensor c, Tensor z, Tensor i, Tensor b, "
        "Tensor j, float k) -> (Tensor y, Tensor t, Tensor u)", tensors, number,
        [last, total, added])


def compiled(seeds: range, folder: str) -> Any:
    """A module of C, for machines that the row engine does not know."""
    import subprocess
    from pathlib import Path

    import opgraft

    ops = []
    for seed in seeds:
        f = grow(seed)
        ops.append(f'    {{.schema = "{f.schema}", .shape = "{f.shape}",\n'
                   f'     .dtype = "{TYPES}",\n     .row = "{f.row}"}},\n')
    source = Path(folder) / "grown.c"
    source.write_text("#include <opgraft/op.h>\nstatic const og_op ops[] = {\n"
                      + "".join(ops) + "};\nOG_MODULE(grown, ops)\n")
    subprocess.run(["opgraft", "build", "-O1", source], check=True, cwd=folder,
                   capture_output=True)
    return opgraft.load(source.with_suffix(".so"))


def main(out: str, seeds: range, is_compiled: bool) -> None:
    import tempfile

    import torch

    import opgraft

    results = {}
    with tempfile.TemporaryDirectory() as folder:
        module = compiled(seeds, folder) if is_compiled else None
    for seed in seeds:
        formula = grow(seed)
        f = (getattr(module, f"f{seed}") if is_compiled else opgraft.define(
            formula.schema, row=formula.row, shape=formula.shape, dtype=TYPES))
        tensors = [torch.from_numpy(t) for t in formula.tensors]
        for name, result in zip("ytu", f(*tensors, formula.number)):
            results[f"f{seed}{name}"] = result.numpy()
    np.savez(out, **results)


if __name__ == "__main__":
    main(sys.argv[1], range(int(sys.argv[2]), int(sys.argv[2]) + int(sys.argv[3])),
         sys.argv[4:] == ["c"])
