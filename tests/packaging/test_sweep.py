# SPDX-License-Identifier: Apache-2.0
"""How the sweep over public models tells jumps of a model from errors."""

from __future__ import annotations

import importlib
import random
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def sweep() -> Any:
    sys.path.insert(0, str(ROOT / "tests/sweep"))
    try:
        return importlib.import_module("public_models")
    finally:
        sys.path.remove(str(ROOT / "tests/sweep"))


def jumpy(draws: random.Random, count: int, times: float = 1.0) -> list[float]:
    """Distances that jump by four orders of magnitude, a third of the time."""
    return [times * draws.lognormvariate(-14, 0.3)
            * (1e4 if draws.random() < 1 / 3 else 1) for _ in range(count)]


def test_chance_is_uniform_where_both_are_alike(sweep: Any) -> None:
    draws = random.Random(1)
    found = [sweep.chance(jumpy(draws, 30), jumpy(draws, 30))
             for _ in range(2000)]
    for level in (0.01, 0.1, 0.5):
        share = sum(x < level for x in found) / len(found)
        assert abs(share - level) < 0.25 * level + 0.005


@pytest.mark.parametrize("times", [3, 10])
def test_errors_are_found_among_jumps(sweep: Any, times: float) -> None:
    draws = random.Random(2)
    samples = 15 * sweep.MORE_TIMES
    found = sum(sweep.chance(jumpy(draws, samples, times),
                             jumpy(draws, samples)) < sweep.CHANCE_MIN
                for _ in range(500))
    assert found > 475


def test_ties_and_what_is_no_number(sweep: Any) -> None:
    assert sweep.chance([1.0] * 30, [1.0] * 30) == 1
    assert sweep.chance([2.0] * 30, [1.0] * 30) < 1e-9
    assert sweep.chance([1.0] * 30, [2.0] * 30) > 0.99
    assert sweep.chance([float("nan")] * 30, [1.0] * 30) == 0
