# SPDX-License-Identifier: Apache-2.0
"""What eager refuses, a compiled graph refuses, and nothing else (refusing.py):
tables of what is known to be refused, and a search beside recorded calls."""

from __future__ import annotations

import collections
import re
from typing import Any, Callable

import pytest
import torch
import torch.nn.functional as F
from recorded import DECOMPOSED
from refusing import EXCUSED, FORMS, MANY, MODES, compiled, search

REFUSED: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "negative_power": lambda x: x ** -2,
    "full": lambda x: torch.full_like(x, 70_000),
    "alpha": lambda x: torch.add(x, x, alpha=70_000),
    "clamp": lambda x: x.clamp(0, 70_000),
    "masked_fill": lambda x: x.masked_fill(x > 2, 70_000),
}


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16], ids=str)
@pytest.mark.parametrize("name", REFUSED)
def test_a_number_that_aten_refuses_is_an_error(
    name: str, dtype: torch.dtype
) -> None:
    """And one that it takes, as clamp does since 2.15, gives the same."""
    torch._dynamo.reset()
    x = torch.arange(1, 5).to(dtype)
    compiled = torch.compile(REFUSED[name], backend="opgraft")
    try:
        expected = REFUSED[name](x)
    except RuntimeError as error:
        assert re.search("overflow|negative", str(error))
        with pytest.raises(RuntimeError, match="overflow|negative"):
            compiled(x)
    else:
        assert name == "clamp" and torch.equal(compiled(x), expected)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", [torch.bool, torch.int64], ids=str)
def test_a_variance_of_integers_is_an_error(dtype: torch.dtype, mode: str
                                            ) -> None:
    torch._dynamo.reset()
    x = torch.ones(3, 5).to(dtype)
    f = torch.compile(lambda x: x.var(1), backend="opgraft", mode=mode)
    with pytest.raises(Exception, match="floating point"):
        f(x)


# --- Values -------------------------------------------------------------------


def ones(i: torch.Tensor) -> torch.Tensor:
    return torch.ones(i.numel())


# By name: function of floats in (0, 1) and of as many indices from 0 to 6.
INDEXED: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "gather": lambda x, i: torch.gather(x, 0, i) * 2,
    "scatter": lambda x, i: x.scatter(0, i, 1.0),
    "scatter_src": lambda x, i: x.scatter(0, i, ones(i)),
    "scatter_add": lambda x, i: x.scatter_add(0, i, ones(i)),
    "scatter_reduce": lambda x, i: x.scatter_reduce(0, i, ones(i), "amax"),
    "index_select": lambda x, i: x.index_select(0, i) * 2,
    "index_add": lambda x, i: x.index_add(0, i, ones(i)),
    "index_copy": lambda x, i: x.index_copy(0, i, ones(i)),
    "index_reduce": lambda x, i: x.index_reduce(0, i, ones(i), "prod"),
    "embedding": lambda x, i: F.embedding(i, x[:, None]),
    "cross_entropy": lambda x, i: F.cross_entropy(
        x[:, None] * torch.ones(7), i),
    "multi_margin_loss": lambda x, i: F.multi_margin_loss(
        x[:, None] * torch.ones(7), i),
}
# These count negative indices from the end.
WRAPPED: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "index": lambda x, i: x[i] * 2,
    "index_put": lambda x, i: x.index_put((i,), ones(i)),
    "index_fill": lambda x, i: x.index_fill(0, i, 2.0),
    "take": lambda x, i: torch.take(x, i) * 2,
}


@pytest.mark.parametrize("mode,grad", [*zip(MODES, (True, False))])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", [*INDEXED, *WRAPPED])
def test_an_index_is_refused_where_eager_refuses_it(
        name: str, form: str, mode: str, grad: bool) -> None:
    n = 8 if form == "few" else MANY
    function = INDEXED.get(name) or WRAPPED[name]
    x = (torch.rand(n) * 0.8 + 0.1).requires_grad_(grad)
    c = compiled(function, mode)
    good = torch.arange(n) % 7
    torch.testing.assert_close(c(x, good), function(x, good))
    for value in (-5, -1, -n - 1, n):
        i = good.clone()
        i[n // 2] = value
        if name in WRAPPED and -n <= value < n:
            torch.testing.assert_close(c(x, i), function(x, i))
            continue
        with pytest.raises((IndexError, RuntimeError)) as wanted:
            function(x, i)
        # A host's kernel runs many, and may not say which it was.
        is_named = form == "few" or f"{value} " in str(wanted.value)
        with pytest.raises((IndexError, RuntimeError),
                           match=f"{value}\\b" if is_named else None):
            c(x, i)


DIVISIONS: dict[str, Callable[[Any, Any], torch.Tensor]] = {
    "floor": lambda a, b: torch.div(a, b, rounding_mode="floor"),
    "trunc": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
    "remainder": lambda a, b: a % b,
    "fmod": torch.fmod,
}


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8], ids=str)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", DIVISIONS)
def test_integers_divided_by_zero(
        name: str, form: str, dtype: torch.dtype) -> None:
    divide = DIVISIONS[name]
    n = 8 if form == "few" else MANY
    a = torch.arange(n).to(dtype).reshape(2, -1)
    b = torch.ones(n // 2, dtype=dtype)
    c = compiled(lambda a, b: divide(a, b) + 1, MODES[0])
    torch.testing.assert_close(c(a, b), divide(a, b) + 1)
    for at in (0, n // 2 - 1):
        wrong = b.clone()
        wrong[at] = 0
        for f in (c, divide):
            with pytest.raises(RuntimeError, match="divided by 0|ZeroDivision"):
                f(a, wrong)
    torch.testing.assert_close(c(a, b), divide(a, b) + 1)  # it forgets
    none = a[:, :0], b[:0] * 0
    assert compiled(divide, MODES[0])(*none).shape == (2, 0)
    assert not (compiled(lambda a: a / 0, MODES[0])(a) == 0).any()


VALUES: dict[str, tuple[Callable[[torch.Tensor], Any], float]] = {
    "celu": (lambda x: F.celu(x, 0.0), 0.5),
    "bernoulli": (torch.bernoulli, 1.5),
    "bce_input": (lambda x: F.binary_cross_entropy(x, x * 0), 1.5),
    "bce_target": (lambda x: F.binary_cross_entropy(x * 0, x), -0.5),
    "mvlgamma": (lambda x: torch.mvlgamma(x, 0), 2.0),
    "bool_minus_number": (lambda x: (x > 0) - 1, 0.5),
    "number_minus_bool": (lambda x: 1 - (x > 0), 0.5),
    "bool_minus_float": (lambda x: (x > 0) - x, 0.5),
    "argmax_of_bools": (lambda x: torch.argmax(x > 0), 0.5),
    "first_offset": (lambda x: F.embedding_bag(
        torch.arange(4), x[:8, None], (x[:2] * 2 + 1).long(), mode="sum"), 0.5),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", VALUES)
def test_a_value_that_a_decomposition_would_compute_with(
        name: str, form: str, mode: str) -> None:
    function, value = VALUES[name]
    x = torch.full((8 if form == "few" else MANY,), value)
    for f in (function, compiled(function, mode)):
        with pytest.raises(RuntimeError):
            f(x)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 3), (0, 0)], ids=str)
@pytest.mark.parametrize("name", ["max", "min", "amax", "argmin"])
def test_the_largest_of_nothing(
        name: str, shape: tuple[int, ...], mode: str) -> None:
    reduce = getattr(torch, name)
    for function in (reduce, lambda x: reduce(x * 2) + 1):
        with pytest.raises((IndexError, RuntimeError)):
            function(torch.empty(shape))
        with pytest.raises((IndexError, RuntimeError)):
            compiled(function, mode)(torch.empty(shape))
    c = compiled(lambda x: torch.softmax(x, -1).sum(-1), mode)
    torch.testing.assert_close(c(torch.empty(3, 0)), torch.zeros(3))


# --- The search ---------------------------------------------------------------


@pytest.mark.full
def test_calls_at_their_borders() -> None:
    tally = search(seed=7, bases=40, most=8)
    assert not tally.problems, "\n".join(tally.problems)
    assert tally.counts["calls"] > 150


@pytest.mark.full
def test_many(rounds: Any) -> None:
    def check(seed: int) -> collections.Counter[str]:
        tally = search(seed, bases=10, most=30)
        assert not tally.problems, "\n".join(tally.problems)
        return tally.counts

    rounds(check, 100)


def test_excuses_are_of_operators_that_are_tried() -> None:
    assert len(DECOMPOSED) > 80
    assert all(reason for _, _, reason in EXCUSED)
