# SPDX-License-Identifier: Apache-2.0
"""Models: results and gradients against eager and float64, training steps."""

from __future__ import annotations

import contextlib
import copy
import importlib.util
from typing import Any

import models
import pytest
import torch
from compare import compiled, no_worse
from torch import nn

import opgraft

NAMES = sorted(models.ALL)
FORMS = ["f32", "bf16", "autocast"]


def build(name: str, full: bool) -> Any:
    entry = models.ALL[name]
    if entry.needs and importlib.util.find_spec(entry.needs) is None:
        pytest.skip(f"{entry.needs} is not installed")
    torch.manual_seed(1)
    return entry, *entry.build(full)


def convert(tree: Any, dtype: torch.dtype) -> Any:
    return torch.utils._pytree.tree_map(
        lambda x: x.to(dtype)
        if isinstance(x, torch.Tensor) and x.is_floating_point() else x, tree)


def set_type(model: nn.Module, dtype: torch.dtype) -> nn.Module:
    out = copy.deepcopy(model).to(dtype)
    for module in out.modules():
        config = getattr(module, "config", None)
        if config is not None and getattr(config, "torch_dtype", None):
            config.torch_dtype = dtype
        if dtype == torch.float64 and hasattr(
                config, "_experts_implementation"):
            config._experts_implementation = "eager"  # the others lack it
    return out


def step(model: nn.Module, run: Any, args: Any, kwargs: Any) -> list[Any]:
    model.zero_grad()
    torch.manual_seed(2)
    out = run(*args, **kwargs)
    out.float().square().mean().backward()
    return [out.detach(), *(p.grad.clone() for p in model.parameters()
                            if p.grad is not None)]


def compare(name: str, form: str, full: bool) -> Any:
    entry, model, args, kwargs = build(name, full)
    model.eval()
    exact = set_type(model, torch.float64)
    exact_args = convert((args, kwargs), torch.float64)
    if form == "bf16":
        model = set_type(model, torch.bfloat16)
        # Both runs start from the rounded weights.
        exact = set_type(model, torch.float64)
        args, kwargs = convert((args, kwargs), torch.bfloat16)
    mode = (torch.autocast("cpu", torch.bfloat16) if form == "autocast"
            else contextlib.nullcontext())
    c = compiled(model)
    slack = 3e-6 if form == "f32" else 2e-2
    with torch.no_grad():
        wanted = exact(*exact_args[0], **exact_args[1])
        with mode:
            eager = model(*args, **kwargs)
            for _ in range(2):
                no_worse(c(*args, **kwargs), eager, wanted, slack)
    if entry.trained:
        wanted = step(exact, exact, *exact_args)
        with mode:
            eager = step(model, model, args, kwargs)
            found = step(model, c, args, kwargs)
        no_worse(found, eager, wanted, slack)
    return opgraft.stats(c)


@pytest.mark.parametrize("name", NAMES)
def test_small(name: str) -> None:
    compare(name, "f32", full=False)


@pytest.mark.full
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", NAMES)
def test_full(name: str, form: str) -> None:
    compare(name, form, full=True)


@pytest.mark.full
@pytest.mark.parametrize("form", ["bf16", "autocast"])
@pytest.mark.parametrize("name", NAMES)
def test_small_types(name: str, form: str) -> None:
    compare(name, form, full=False)


@pytest.mark.full
@pytest.mark.parametrize(
    "name", [n for n in NAMES if models.ALL[n].trained])
def test_training(name: str) -> None:
    """Twenty steps, each from eager's weights, dropout on."""
    _, model, args, kwargs = build(name, full=False)
    model.train()
    exact = set_type(model, torch.float64)
    exact_args = convert((args, kwargs), torch.float64)
    other = copy.deepcopy(model)
    c = compiled(other)
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    has_dropout = any(isinstance(m, nn.Dropout) and m.p > 0
                      for m in model.modules())
    for _ in range(20):
        other.load_state_dict(model.state_dict())
        exact.load_state_dict(model.state_dict())
        wanted = step(model, model, args, kwargs)
        found = step(other, c, args, kwargs)
        if has_dropout:  # float64 draws other numbers
            for a, b in zip(found, wanted, strict=True):
                torch.testing.assert_close(a, b, rtol=2e-4, atol=2e-5)
        else:
            no_worse(found, wanted, step(exact, exact, *exact_args), 5e-6)
        for a, b in zip(other.buffers(), model.buffers(), strict=True):
            torch.testing.assert_close(a, b)
        optimizer.step()
