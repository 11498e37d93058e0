# SPDX-License-Identifier: Apache-2.0
"""Operators of float8: torch's numbers to the bit, in every mode; check; what
is refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import opgraft

TYPES = {"narrow": torch.float8_e4m3fn, "small": torch.float8_e5m2}
MODES = ("reduce-overhead", "max-autotune")


@pytest.fixture(scope="module")
def float8(build: Any) -> Any:
    return opgraft.load(build("tests/python/float8.c"))


def floats(dtype: torch.dtype) -> torch.Tensor:
    """Each number of the type, the middles between neighbours and what lies on
    both sides of those, of both signs; beyond the type; of every exponent."""
    own = torch.arange(256, dtype=torch.uint8).view(dtype).float()
    own = own[own.isfinite()].unique()
    middle = (own[1:] + own[:-1]) / 2
    edges = torch.tensor([464.0, 480.0, 61440.0, 65536.0, 3e38, float("inf"),
                          float("nan"), 1e-45, 0.0])
    drawn = torch.randint(-2**31, 2**31, (100_000,)).int().view(torch.float32)
    x = torch.cat([own, middle, middle.nextafter(torch.tensor(3e38)),
                   middle.nextafter(torch.tensor(-3e38)), edges, drawn])
    return torch.cat([x, -x])


@pytest.mark.parametrize("name", TYPES)
def test_torchs_numbers(float8: Any, name: str) -> None:
    x = floats(TYPES[name])
    narrow, wanted = getattr(float8, name), x.to(TYPES[name])
    given = wanted.view(torch.uint8).unique().view(TYPES[name])

    def both(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return narrow(x), float8.widen(y.view(-1)) * 2

    for f in (both, *(torch.compile(both, backend="opgraft", mode=mode,
                                    fullgraph=True) for mode in MODES)):
        for _ in range(2):
            y, wide = f(x, given)
            assert y.dtype == TYPES[name]
            torch.testing.assert_close(y.float(), wanted.float(), rtol=0, atol=0,
                                       equal_nan=True)
            signs = y.view(torch.uint8) >> 7
            assert torch.equal(signs[x == x], wanted.view(torch.uint8)[x == x] >> 7)
            torch.testing.assert_close(wide, given.float() * 2, rtol=0, atol=0,
                                       equal_nan=True)


def test_what_is_refused(float8: Any) -> None:
    for other, told in ((torch.uint8, r"x is u8 here, expected f8e4m3\|f8e5m2"),
                        (torch.float8_e4m3fnuz, "x: has a dtype that opgraft")):
        with pytest.raises(RuntimeError, match=told):
            float8.widen(torch.zeros(3, dtype=torch.uint8).view(other))


def test_check(float8: Any) -> None:
    report = opgraft.check(float8, calls=10)
    assert report, report
