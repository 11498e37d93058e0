# SPDX-License-Identifier: Apache-2.0
"""Compiled optimizers: every node is native, and the steps are eager's."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import opgraft

SMOKE: dict[str, dict[str, Any]] = {
    "SGD": {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1},
    "Adam": {"amsgrad": True, "weight_decay": 0.1},
    "AdamW": {"maximize": True},
    "RMSprop": {"centered": True, "momentum": 0.9},
    "Adagrad": {"weight_decay": 0.1},
    "Adamax": {"foreach": True},
}
# Where a list of tensors is stepped at once, these take no tensor as the rate.
TAKES_NUMBER = ("Adam", "AdamW")
ALL: list[tuple[str, dict[str, Any]]] = [
    (name, kwargs)
    for name in ("SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Adadelta",
                 "Adamax", "NAdam", "RAdam", "ASGD", "Rprop")
    for kwargs in ({}, {"foreach": True}, {"foreach": False},
                   {"maximize": True}, {"maximize": True, "foreach": True})]


def train(name: str, kwargs: dict[str, Any], is_compiled: bool
          ) -> tuple[list[torch.Tensor], Any]:
    torch.manual_seed(4)
    model = torch.nn.Sequential(
        torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3))
    is_number = kwargs.get("foreach") and name in TAKES_NUMBER
    optimizer = getattr(torch.optim, name)(
        model.parameters(), lr=0.02 if is_number else torch.tensor(0.02),
        **kwargs)
    step = optimizer.step
    if is_compiled:
        step = torch.compile(step, backend="opgraft")
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.randn(5, 4)).square().sum().backward()
        step()
    return [p.detach() for p in model.parameters()], step


def check(name: str, kwargs: dict[str, Any]) -> None:
    torch._dynamo.reset()
    wanted, _ = train(name, kwargs, False)
    found, step = train(name, kwargs, True)
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-6)
    stats = opgraft.stats(step)
    assert stats.nodes > 0
    assert not stats.fallbacks, stats.fallbacks


@pytest.mark.parametrize("name", SMOKE)
def test_compiled_optimizer_is_native(name: str) -> None:
    check(name, SMOKE[name])


@pytest.mark.full
@pytest.mark.parametrize(("name", "kwargs"), ALL, ids=str)
def test_every_compiled_optimizer_is_native(
    name: str, kwargs: dict[str, Any]
) -> None:
    check(name, kwargs)
