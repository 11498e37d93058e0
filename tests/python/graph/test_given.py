# SPDX-License-Identifier: Apache-2.0
"""Results that an operator of the host makes in memory of their own become
outputs as they are."""

from __future__ import annotations

import weakref
from typing import Any

import pytest
import torch

import opgraft

LIBRARY = torch.library.Library("test_given", "FRAGMENT")  # noqa: TOR901
CACHE = torch.full((6, 4), 7.0)
KERNELS: dict[str, Any] = {
    "fresh": lambda x: x * 2,
    "transposed": lambda x: (x.t() * 2).t(),
    "part": lambda x: torch.cat([x * 2, x])[:len(x)],
    "same": lambda x: x,
    "cached": lambda x: CACHE,
}
for name, kernel in KERNELS.items():
    LIBRARY.define(f"{name}(Tensor x) -> Tensor")
    LIBRARY.impl(name, kernel, "CPU")
    torch.library.register_fake(f"test_given::{name}", torch.empty_like,
                                lib=LIBRARY)
LIBRARY.define("twice(Tensor x) -> (Tensor, Tensor)")
LIBRARY.impl("twice", lambda x: (y := x * 2, y), "CPU")
torch.library.register_fake("test_given::twice", lambda x: (
    torch.empty_like(x), torch.empty_like(x)), lib=LIBRARY)
LIBRARY.define("wrong(Tensor x) -> Tensor")
LIBRARY.impl("wrong", lambda x: x[:2] * 1, "CPU")
torch.library.register_fake("test_given::wrong", torch.empty_like, lib=LIBRARY)
LIBRARY.define("raises(Tensor x) -> Tensor")


def _raises(x: torch.Tensor) -> torch.Tensor:
    raise ValueError("no luck")


LIBRARY.impl("raises", _raises, "CPU")
torch.library.register_fake("test_given::raises", torch.empty_like,
                            lib=LIBRARY)


def compiled(f: Any) -> Any:
    return torch.compile(f, backend="opgraft", fullgraph=True)


@pytest.mark.parametrize("name", KERNELS)
def test_is_what_eager_gives(name: str) -> None:
    op = getattr(torch.ops.test_given, name)

    def f(x: torch.Tensor) -> Any:
        y = op(x + 1)
        return y, y.sum(0), y[1:]

    g = compiled(f)
    kept = []
    for k in range(4):
        x = torch.randn(6, 4) + k
        found, wanted = g(x), f(x)
        for a, b in zip(found, wanted):
            torch.testing.assert_close(a, b)
            assert a.stride() == b.stride() or name == "transposed"
        kept.append((found, [w.clone() for w in wanted]))
    # What was given stays the caller's.
    for found, wanted in kept:
        for a, b in zip(found, wanted):
            torch.testing.assert_close(a, b)


def test_memory_of_the_plan_is_never_given() -> None:
    g = compiled(lambda x: torch.ops.test_given.same(x * 3))
    x = torch.randn(6, 4)
    first = g(x)
    copy = first.clone()
    g(torch.zeros(6, 4))
    torch.testing.assert_close(first, copy)
    y = torch.randn(6, 4)
    h = compiled(lambda y: torch.ops.test_given.same(y))
    assert h(y).data_ptr() != y.data_ptr()


def test_two_results_in_one_memory() -> None:
    g = compiled(lambda x: torch.ops.test_given.twice(x + 1))
    a, b = g(torch.ones(6, 4))
    assert a.data_ptr() != b.data_ptr()
    torch.testing.assert_close(a, torch.full((6, 4), 4.0))
    torch.testing.assert_close(b, a)


@pytest.mark.parametrize("name, text", [
    ("wrong", "another shape"), ("raises", "no luck")])
def test_errors_release_what_was_given(name: str, text: str) -> None:
    op = getattr(torch.ops.test_given, name)

    def f(x: torch.Tensor) -> Any:
        return torch.ops.test_given.fresh(x), op(x)

    g = compiled(f)
    for _ in range(3):
        with pytest.raises((RuntimeError, ValueError), match=text):
            g(torch.ones(6, 4))


def test_gradients_of_convolutions_are_tensors_of_their_own() -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(),
                                torch.nn.Conv2d(8, 4, 3))
    g = compiled(model)
    for n in (2, 3):
        x = torch.randn(n, 3, 12, 12)
        wanted = torch.autograd.grad(model(x).square().sum(),
                                     list(model.parameters()))
        found = torch.autograd.grad(g(x).square().sum(),
                                    list(model.parameters()))
        for a, b in zip(found, wanted):
            torch.testing.assert_close(a, b)
            assert a._base is None
            assert a.untyped_storage().nbytes() == a.numel() * 4
    assert not opgraft.stats(g).fallbacks


class Own(torch.Tensor):
    pass


@torch.library.custom_op("test_given::own", mutates_args=())
def own(x: torch.Tensor, scale: float | int | bool = 2) -> torch.Tensor:
    return (x * scale).as_subclass(Own)


own.register_fake(lambda x, scale=2: torch.empty_like(x))


def test_a_result_of_another_class_is_copied() -> None:
    g = compiled(lambda x: torch.ops.test_given.own(x + 1))
    found = g(torch.ones(6, 4))
    assert type(found) is torch.Tensor
    torch.testing.assert_close(found, torch.full((6, 4), 4.0))


@pytest.mark.parametrize("f, arena", [
    (lambda x, y: (x @ y).sin() + 1, 0),
    (lambda x, y: ((z := (x @ y).sin() * 2) + 1, x @ z), 1),
    (lambda x, y: torch.ops.test_given.fresh((x @ y).sin()) + 1, 1),
    (lambda x, y: ((x @ y).mul(100).to(torch.int32), x + 1), 0),
    (lambda x, y: (torch.ops.test_given.fresh(x) @ y).tanh(), 1),
])
def test_a_large_result_lends_its_memory(f: Any, arena: int) -> None:
    """What a result would take over in the arena is computed where the result
    will lie; what the caller has kept is left alone."""
    g = compiled(f)
    held = []
    for _ in range(3):
        x, y = torch.randn(160, 160), torch.randn(160, 160)
        held.append((g(x, y), f(x, y)))
    for found, wanted in held:
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)
    (graph,) = opgraft.stats(g).graphs
    assert graph["arena_bytes"] == arena * 160 * 160 * 4


# --- Memory that a backward frees ---------------------------------------------

ROWS, COLUMNS = 512, 256  # 512 KiB each


def _deep(depth: int) -> torch.nn.Module:
    return torch.nn.Sequential(*[
        layer for _ in range(depth)
        for layer in (torch.nn.Linear(COLUMNS, COLUMNS), torch.nn.GELU())])


class _Saved:
    """What autograd keeps, and how much of it is left at an operator."""

    def __init__(self) -> None:
        self.seen: list[weakref.ref[torch.Tensor]] = []
        self.left: list[int] = []

    def keep(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape == (ROWS, COLUMNS):
            self.seen.append(weakref.ref(x))
        return x

    def count(self) -> None:
        self.left.append(sum(r() is not None for r in self.seen))


SAVED = _Saved()


class _Looks(torch.autograd.Function):
    """The identity, whose gradient counts."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return torch.ops.test_given.look(x, False)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> torch.Tensor:
        return torch.ops.test_given.look(grads[0], True)


def _look(x: torch.Tensor, is_noted: bool) -> torch.Tensor:
    if is_noted:
        SAVED.count()
    return x.clone()


LIBRARY.define("look(Tensor x, bool is_noted) -> Tensor")
LIBRARY.impl("look", _look, "CPU")
torch.library.register_fake("test_given::look",
                            lambda x, is_noted: torch.empty_like(x),
                            lib=LIBRARY)


@pytest.mark.parametrize("lanes", [1, 2])
def test_a_backward_lets_go_of_what_was_saved(lanes: int) -> None:
    model = _deep(12)
    x = torch.randn(ROWS, COLUMNS)

    def f(x: torch.Tensor) -> torch.Tensor:
        return model(_Looks.apply(model(x.requires_grad_())))

    wanted = torch.autograd.grad(f(x).square().sum(), list(model.parameters()))
    g = torch.compile(f, backend="opgraft", fullgraph=True,
                      options={"lanes": lanes})
    for _ in range(3):
        SAVED.seen.clear()
        SAVED.left.clear()
        with torch.autograd.graph.saved_tensors_hooks(SAVED.keep, lambda x: x):
            loss = g(x).square().sum()
        found = torch.autograd.grad(loss, list(model.parameters()))
        for a, b in zip(found, wanted):
            torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-3)
        assert len(SAVED.seen) >= 24
        assert SAVED.left[0] <= len(SAVED.seen) * 3 // 4


def test_a_backward_that_is_kept_runs_again() -> None:
    model = _deep(4)
    loss = compiled(model)(torch.randn(ROWS, COLUMNS)).square().sum()
    first = torch.autograd.grad(loss, list(model.parameters()),
                                retain_graph=True)
    again = torch.autograd.grad(loss, list(model.parameters()))
    for a, b in zip(first, again):
        assert torch.equal(a, b)


@pytest.mark.parametrize("layer, shape", [
    (torch.nn.LayerNorm(64), (128, 64)),
    (torch.nn.LayerNorm(64, bias=False), (128, 64)),
    (torch.nn.GroupNorm(4, 16), (8, 16, 64)),
    (torch.nn.Softmax(-1), (128, 64)),
    (torch.nn.LogSoftmax(-1), (128, 64)),
    (torch.nn.GELU(), (256, 256)),
])
def test_a_gradient_with_much_to_do_is_the_hosts(
        layer: torch.nn.Module, shape: tuple[int, ...]) -> None:
    """Our own kernel for it is simple; one operand too few in its row, and the
    host could not be asked."""
    g = compiled(layer)
    x = torch.randn(shape, requires_grad=True)
    grads = [torch.autograd.grad(f(x).pow(2).sum(), [x, *layer.parameters()])
             for f in (g, layer)]
    for a, b in zip(*grads):
        torch.testing.assert_close(a, b)
    for graph in opgraft.stats(g).graphs:
        assert graph["host_nodes"] == graph["nodes"], graph["kind"]
