# SPDX-License-Identifier: Apache-2.0
"""Random numbers are the host's: drawn from its generator in eager's order, as
named fallbacks, with the graph around them native."""

from __future__ import annotations

from typing import Callable

import pytest
import torch

import opgraft

DRAWS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "exponential": lambda x: torch.empty_like(x).exponential_(2.0),
    "randn_like": torch.randn_like,
    "rand_like": torch.rand_like,
    "randint_like": lambda x: torch.randint_like(x, 9),
    "bernoulli": lambda x: torch.bernoulli(torch.sigmoid(x)),
    "normal": lambda x: torch.normal(x, 0.5),
    "uniform": lambda x: torch.empty_like(x).uniform_(-1, 1),
    "multinomial": lambda x: torch.multinomial(x.abs(), 2).float(),
    "randperm": lambda x: x[torch.randperm(x.shape[0])],
}


@pytest.mark.parametrize("name", DRAWS)
def test_draws_are_those_of_eager(name: str) -> None:
    torch._dynamo.reset()
    draw = DRAWS[name]

    def f(x: torch.Tensor) -> list[torch.Tensor]:
        first = draw(x * 2 + 1)
        return [first, torch.randn_like(x), draw(x - 3).tanh()]

    x = torch.linspace(-1, 2, 24).reshape(4, 6)
    compiled = torch.compile(f, backend="opgraft")
    for _ in range(3):
        found, wanted = [], []
        for g, into in ((compiled, found), (f, wanted)):
            torch.manual_seed(11)
            into += [*g(x), torch.rand(3)]
        torch.testing.assert_close(found, wanted, rtol=0, atol=1e-6)
    stats = opgraft.stats(compiled)
    assert stats.graphs
    assert stats.fallbacks and all(s["reason"] for s in stats.fallbacks)
    assert "aten.tanh.default" not in {
        s["operator"] for s in stats.fallbacks}
