# SPDX-License-Identifier: Apache-2.0
"""Kernels that give no tensor where their shape function gives one: gradients
that are not asked for, what only training saves."""

from __future__ import annotations

import copy
import itertools
from typing import Any, Callable

import pytest
import torch
from compare import compiled
from torch import nn

T = torch.Tensor

# In float64: how norms add up in float32 is another test's matter.
LAYERS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "batch_norm": (lambda: nn.BatchNorm2d(4), (8, 4, 9, 9)),
    "batch_norm no affine": (lambda: nn.BatchNorm2d(4, affine=False),
                             (8, 4, 9, 9)),
    "instance_norm": (lambda: nn.InstanceNorm2d(
        4, affine=True, track_running_stats=True), (2, 4, 9, 9)),
    "group_norm": (lambda: nn.GroupNorm(2, 4), (2, 4, 9, 9)),
    "layer_norm": (lambda: nn.LayerNorm(9), (2, 4, 9, 9)),
    "conv": (lambda: nn.Conv2d(4, 4, 3), (2, 4, 9, 9)),
    "linear": (lambda: nn.Linear(9, 3), (2, 4, 9, 9)),
    "prelu": (lambda: nn.PReLU(4), (2, 4, 9, 9)),
}


def gradients(module: nn.Module, call: Any, x: T) -> list[T | None]:
    y = call(x)
    (y * y.detach().cos()).sum().backward()
    return [y.detach(), x.grad, *(p.grad for p in module.parameters()),
            *module.buffers()]


def asked(name: str, trains: bool, wanted: tuple[bool, ...]) -> None:
    make, shape = LAYERS[name]
    theirs = make().double().train(trains)
    for p, is_wanted in zip(theirs.parameters(), wanted[1:]):
        p.requires_grad_(is_wanted)
    mine = copy.deepcopy(theirs)
    x = torch.randn(shape, dtype=torch.float64)
    torch._dynamo.reset()
    for a, b in zip(
            gradients(mine, compiled(mine), x.clone().requires_grad_(wanted[0])),
            gradients(theirs, theirs, x.clone().requires_grad_(wanted[0]))):
        assert (a is None) == (b is None)
        if a is not None and b is not None:
            torch.testing.assert_close(a, b)


@pytest.mark.parametrize("name", LAYERS)
def test_each_choice_of_gradients(name: str) -> None:
    """A kernel leaves out what its mask leaves out; in eval batch norm's
    backward does so for the input of a frozen stem."""
    count = 1 + len(list(LAYERS[name][0]().parameters()))
    has_modes = "batch" in name or "instance" in name
    for wanted in itertools.product((True, False), repeat=count):
        for trains in (True, False)[:1 + has_modes]:
            if any(wanted):
                asked(name, trains, wanted)


def test_frozen_stem_with_batch_norm_in_eval() -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(),
                          nn.Conv2d(4, 2, 1)).double()
    model[0].requires_grad_(False)
    model[1].eval()
    mine = copy.deepcopy(model)
    x = torch.randn(4, 3, 40, 40, dtype=torch.float64)
    c = compiled(mine, dynamic=True)
    for n in (4, 3):
        model(x[:n]).square().sum().backward()
        c(x[:n]).square().sum().backward()
    for p, q in zip(mine.parameters(), model.parameters(), strict=True):
        assert (p.grad is None) == (q.grad is None)
        if p.grad is not None:
            torch.testing.assert_close(p.grad, q.grad)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_layers_give_no_workspace_in_inference(kind: Any) -> None:
    """mkldnn_rnn_layer does; float32, as it takes no other."""
    model = kind(4, 5, num_layers=2, bidirectional=True)
    x = torch.randn(3, 2, 4)
    with torch._dynamo.config.patch(allow_rnn=True):
        c = compiled(model)
        with torch.no_grad():
            torch.testing.assert_close(c(x)[0], model(x)[0])
        torch.testing.assert_close(c(x)[0], model(x)[0])


@torch.library.custom_op("og_undefined::maybe", mutates_args=())
def maybe(x: T, gives: bool) -> tuple[T, T]:
    return x + 1, (x * 2 if gives else None)  # type: ignore[return-value]


@maybe.register_fake
def _maybe_fake(x: T, gives: bool) -> tuple[T, T]:
    return torch.empty_like(x), torch.empty_like(x)


def test_an_undefined_result_counts_as_zeros() -> None:
    def f(x: T, gives: bool) -> Any:
        a, b = maybe(x.sin(), gives)
        return a, b + 1, b

    c = compiled(f, fullgraph=True)
    for size in (5, 5000):
        x = torch.randn(size)
        for y, z in zip(c(x, True), f(x, True), strict=True):
            torch.testing.assert_close(y, z)
        a, b, bare = c(x, False)
        torch.testing.assert_close(a, x.sin() + 1)
        assert torch.equal(b, torch.ones(size))
        assert torch.equal(bare, torch.zeros(size))


# --- Operators that write an argument, and give nothing -----------------------


@torch.library.custom_op("undefined::number", mutates_args={"x"})
def by_number(x: T, by: torch.types.Number) -> None:
    x[0] += by


@torch.library.custom_op("undefined::dtype", mutates_args={"x"})
def by_dtype(x: T, by: torch.dtype) -> None:
    x[0] += torch.finfo(by).bits


@torch.library.custom_op("undefined::text", mutates_args={"x", "y"})
def by_text(x: T, y: T, by: str, numbers: list[float]) -> None:
    x[0] += len(by)
    y[1] += sum(numbers)


@torch.library.custom_op("undefined::both", mutates_args={"x"})
def gives_too(x: T, by: torch.types.Number) -> T:
    x[0] += by
    return x * 2


@gives_too.register_fake
def _(x: T, by: float) -> T:
    return torch.empty_like(x)


WRITERS: dict[str, Callable[[T, T], T]] = {
    "number": lambda x, y: (by_number(x, 3), x * 10 + y)[1],
    "dtype": lambda x, y: (by_dtype(x, torch.float16), x * 10 + y)[1],
    "text": lambda x, y: (by_text(x, y, "abc", [1.5, 2.0]), x * 10 + y)[1],
    "gives too": lambda x, y: gives_too(x, 3.0) + x * 10 + y,
}


@pytest.mark.parametrize("is_copy", [False, True])
@pytest.mark.parametrize("name", WRITERS)
def test_what_was_written_stays(name: str, is_copy: bool) -> None:
    """Python runs them, for the shim has no form of some arguments."""
    def f(x: T, y: T) -> T:
        return WRITERS[name](x.clone() if is_copy else x, y)

    x, y = torch.arange(6.0).reshape(2, 3), torch.ones(2, 3)
    given = x.clone(), y.clone()
    wanted, found = f(x, y), compiled(f)(*given)
    assert torch.equal(found, wanted)
    assert torch.equal(given[0], x) and torch.equal(given[1], y)
