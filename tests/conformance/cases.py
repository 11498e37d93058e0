# SPDX-License-Identifier: Apache-2.0
"""The calls that every host makes: operators x types x shapes, with the values
that hosts treat differently. Imports no host."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, Iterator

import ml_dtypes
import numpy as np

SHAPES = [(), (1,), (3, 4), (2, 3, 5), (0, 4), (1000, 17), (8, 1, 9)]
FLOATS = {"f32": np.float32, "f64": np.float64, "f16": np.float16,
          "bf16": ml_dtypes.bfloat16}
INTS = {"i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
        "u8": np.uint8}


@dataclasses.dataclass(frozen=True)
class Case:
    label: str
    module: str
    op: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any] = dataclasses.field(default_factory=dict)
    written: tuple[int, ...] = ()  # arguments that the operator writes


def numbers(shape: tuple[int, ...], dtype: Any, seed: int) -> Any:
    drawn = np.random.default_rng(seed).standard_normal(shape)
    return np.asarray(drawn * 4, np.float32).astype(dtype)


def specials(dtype: Any) -> Any:
    """NaN, infinities, both zeros, the type's denormals and ends."""
    info = ml_dtypes.finfo(dtype)
    small, tiny = float(info.smallest_subnormal), float(info.tiny)
    values = [np.nan, np.inf, -np.inf, 0.0, -0.0, float(info.max), small,
              -small, tiny, -tiny, tiny / 2, small * 3, -1.5, 2.5]
    return np.array(values, np.float64).astype(dtype)


def _affine() -> Iterator[Case]:
    for name, dtype in FLOATS.items():
        for shape in SHAPES:
            yield Case(f"affine {name}{list(shape)}", "kinds", "affine",
                       (numbers(shape, dtype, 1), numbers(shape, dtype, 2)),
                       {"a": 0.375})
        edge = specials(dtype)
        yield Case(f"affine {name} specials", "kinds", "affine",
                   (edge, edge[::-1].copy()))
        yield Case(f"affine {name} denormals", "kinds", "affine",
                   (np.zeros_like(edge[6:12]), edge[6:12]), {"a": 0.75})


def _integers() -> Iterator[Case]:
    for name, dtype in INTS.items():
        ends = np.iinfo(dtype)
        x = np.array([0, 1, 7, ends.min, ends.max], dtype)
        yield Case(f"twice {name}", "kinds", "twice", (x,))
        yield Case(f"twice {name}[]", "kinds", "twice", (np.array(5, dtype),))
        yield Case(f"twice {name}[0]", "kinds", "twice", (x[:0],))
    yield Case("flip", "kinds", "flip", (np.array([[True, False, True]]),))


def _kinds() -> Iterator[Case]:
    f32 = np.float32
    for shape in SHAPES:
        yield Case(f"tilt {list(shape)}", "kinds", "tilt",
                   (numbers(shape, f32, 3), -1.75))
    yield Case("tilt -0.0", "kinds", "tilt", (np.zeros(3, f32), -0.0, -0.0))
    yield Case("tilt 0.0", "kinds", "tilt", (np.zeros(3, f32), 0.0, 0.0))
    yield Case("tilt specials", "kinds", "tilt", (specials(f32), 0.5, 0.0))
    for cache, rows, at in ((8, 2, 3), (8, 8, 0), (1, 1, 0), (64, 5, 59),
                            (4, 0, 2)):
        yield Case(f"put_rows_ {cache} {rows} {at}", "kinds", "put_rows_",
                   (numbers((cache, 7), f32, 4), numbers((rows, 7), f32, 5),
                    at), written=(0,))
    x, v, w = (numbers(s, f32, 6) for s in ((2, 3, 5), (5,), (5,)))
    for label, bias, scale in (("none", None, None), ("bias", v, None),
                               ("scale", None, w), ("both", v, w)):
        yield Case(f"maybe {label}", "kinds", "maybe", (x, bias, scale))
    for shape in ((3, 4), (7,), (2, 3, 5), (0, 4)):
        yield Case(f"spread {list(shape)}", "kinds", "spread",
                   (numbers(shape, f32, 7),))
    for count in (1, 2, 5):
        yield Case(f"total {count}", "kinds", "total",
                   ([numbers((3, 4), f32, 8 + i) for i in range(count)],))
    one = numbers((2,), f32, 9)
    for label, arguments in {
        "plain": ([3, 2], [0.5, 0.25], True),
        "text": ([1], [], False, "xyz"),
        "none": ([2, 1], [1.5], True, "", None, None, 0.5),
        "all": ([2], [0.125], False, "q", "bf16", 11, True),
    }.items():
        yield Case(f"digest {label}", "kinds", "digest", (one, *arguments))
    yield Case("digest int", "kinds", "digest", (one, [1], [], False),
               {"s": -3, "more": 4})
    yield Case("pairs", "kinds", "pairs",
               (one, [True, False], [False, True], [2, 3], [5, -1],
                [0.5, 0.25], [1.5, 0.125]))
    yield Case("refuse no", "kinds", "refuse", (one, 3))


def _basics() -> Iterator[Case]:
    f32 = np.float32
    for name in ("f32", "f64"):
        for shape in SHAPES:
            yield Case(f"scale_add {name}{list(shape)}", "basics", "scale_add",
                       (numbers(shape, FLOATS[name], 1),
                        numbers(shape, FLOATS[name], 2), 0.25))
            yield Case(f"scale_add_backward {name}{list(shape)}", "basics",
                       "scale_add_backward",
                       (numbers(shape, FLOATS[name], 1), 0.25))
    for shape in SHAPES:
        yield Case(f"add_to_ {list(shape)}", "basics", "add_to_",
                   (numbers(shape, f32, 3), 1.5), written=(0,))
        yield Case(f"two_writes {list(shape)}", "basics", "two_writes",
                   (numbers(shape, f32, 4), numbers(shape, f32, 5)),
                   written=(0, 1))
        yield Case(f"scalar_mul {list(shape)}", "basics", "scalar_mul",
                   (numbers(shape, f32, 6), 3))
        yield Case(f"no_gradient {list(shape)}", "basics", "no_gradient",
                   (numbers(shape, f32, 7),))
        yield Case(f"zero_gradient {list(shape)}", "basics", "zero_gradient",
                   (numbers(shape, f32, 8),))
    for shape in ((3, 4), (2, 3, 5), (0, 4), (5,)):
        yield Case(f"row_sums {list(shape)}", "basics", "row_sums",
                   (numbers(shape, f32, 9),))
    yield Case("strided_sum", "basics", "strided_sum", (numbers((3, 4), f32, 1),))
    for n in (0, 1, 9):
        yield Case(f"iota {n}", "basics", "iota", (n,))
    for n in (0, 1, 12):
        yield Case(f"positives {n}", "basics", "positives",
                   (numbers((n,), f32, 2),))
    for n, size in ((7, 3), (6, 2), (1, 5)):
        yield Case(f"halves {n} {size}", "basics", "halves",
                   (numbers((n,), f32, 3), size))


def _corners() -> Iterator[Case]:
    f32 = np.float32
    yield Case("dots", "corners", "dots",
               ([numbers((6,), f32, 1), numbers((6,), f32, 2)],
                numbers((6,), f32, 3)))
    yield Case("pick", "corners", "pick",
               (numbers((6,), f32, 4), np.array([5, 0, 2], np.int64)))
    for times in (0, 1, 3):
        yield Case(f"repeat_rows {times}", "corners", "repeat_rows",
                   (numbers((2, 3), f32, 5), times))


def _scale() -> Iterator[Case]:
    f32 = np.float32
    for shape in ((3, 4), (7,), (2, 3, 5), (0, 4), (1000, 17)):
        x, weight = numbers(shape, f32, 1), numbers(shape[-1:], f32, 2)
        yield Case(f"scale {list(shape)}", "scale", "scale", (x, weight))
        yield Case(f"scale_backward {list(shape)}", "scale", "scale_backward",
                   (numbers(shape, f32, 3), x, weight))
    edge = specials(f32)
    yield Case("scale specials", "scale", "scale", (edge, edge[::-1].copy()))


def _refusals() -> Iterator[Case]:
    """Calls that are wrong: every host says the same of them."""
    f32 = np.float32
    a, b = numbers((3, 4), f32, 1), numbers((3, 5), f32, 2)
    yield Case("bad shape", "kinds", "affine", (a, b))
    yield Case("bad rank", "basics", "strided_sum", (numbers((3,), f32, 1),))
    yield Case("bad weight", "scale", "scale", (a, numbers((5,), f32, 3)))
    yield Case("bad where", "kinds", "put_rows_", (a, a[:2], 2), written=(0,))
    yield Case("bad level", "kinds", "refuse", (a, 4))
    yield Case("no columns", "kinds", "spread", (np.zeros((3, 0), f32),))


@functools.cache
def everything() -> list[Case]:
    parts = (_affine, _integers, _kinds, _basics, _corners, _scale, _refusals)
    return [case for part in parts for case in part()]
