# SPDX-License-Identifier: Apache-2.0
"""Integer expressions that explain a size: the simplest of the shape language
that agree with every trial."""

from __future__ import annotations

from itertools import combinations, permutations
from typing import Iterator, Mapping

Row = Mapping[str, int]  # the sizes of one trial, by name

CONSTANTS = range(1, 17)
_FUNCTIONS = {"max": max, "min": min, "ceildiv": lambda a, b: -(-a // b)}


def _one(names: list[str]) -> Iterator[str]:
    for a in names:
        for c in CONSTANTS:
            yield f"{a} + {c}"
            yield f"{a} - {c}"
            if c > 1:
                yield from (f"{c} * {a}", f"{a} // {c}", f"ceildiv({a}, {c})")


def _two(names: list[str]) -> Iterator[str]:
    for a, b in combinations(names, 2):
        yield from (f"{a} + {b}", f"{a} * {b}", f"max({a}, {b})",
                    f"min({a}, {b})")
    for a, b in permutations(names, 2):
        yield from (f"{a} - {b}", f"{a} // {b}", f"ceildiv({a}, {b})")


def _more(names: list[str]) -> Iterator[str]:
    for a, b in permutations(names, 2):
        yield f"{a} - {b} + 1"
        yield from (f"{a} + {c} * {b}" for c in (2, 3, 4))
    for a, b in combinations(names, 2):
        yield from (f"{a} + {b} + 1", f"{a} + {b} - 1", f"{a} * {b} + 1",
                    f"{a} * {b} - 1")
    for a, b, c in combinations(names, 3):
        yield f"{a} + {b} + {c}"
    for a, b, c in permutations(names, 3):
        yield from (f"({a} - {b}) // {c} + 1", f"{a} * {b} + {c}")
    for k in range(3, len(names) + 1):
        yield from (" * ".join(some) for some in combinations(names, k))


def evaluate(text: str, row: Row) -> int:
    return int(eval(text, dict(_FUNCTIONS), row))


def agrees(text: str, rows: list[Row], found: list[int]) -> bool:
    code = compile(text, "<size>", "eval")
    try:
        return all(eval(code, dict(_FUNCTIONS), r) == f
                   for r, f in zip(rows, found))
    except ZeroDivisionError:
        return False


def fit(rows: list[Row], found: list[int], names: list[str]) -> list[str]:
    """The simplest expressions that agree with all rows: one, several where the
    rows cannot tell them apart, none where no form that is known does."""
    if len(set(found)) == 1:
        return [str(found[0])]
    for level in (iter(names), _one(names), _two(names), _more(names)):
        same = [text for text in level if agrees(text, rows, found)]
        if same:
            return same
    return []
