# SPDX-License-Identifier: Apache-2.0
"""Operators with ordered effects: each once per call, in order, and what they
raise, compiled and frozen."""

from __future__ import annotations

from typing import Any, Callable, Iterator

import pytest
import torch
from compare import check, compiled, same
from torch._dynamo.decorators import leaf_function
from torch._higher_order_ops.effects import _EffectType, _register_effectful_op
from torch._library import simple_registry

import opgraft

T = torch.Tensor

log: list[Any] = []


@torch.library.custom_op("og_effects::note", mutates_args=())
def note(x: T, n: int) -> T:
    log.append((n, float(x.sum())))
    return x.clone()


@note.register_fake
def _note_fake(x: T, n: int) -> T:
    return torch.empty_like(x)


@torch.library.custom_op("og_effects::mark", mutates_args=())
def mark(x: T) -> None:
    log.append("mark")


@mark.register_fake
def _mark_fake(x: T) -> None:
    return None


@torch.library.custom_op("og_effects::halves", mutates_args=())
def halves(x: T) -> list[T]:
    log.append("halves")
    return [x / 2, x / 4]


@halves.register_fake
def _halves_fake(x: T) -> list[T]:
    return [torch.empty_like(x), torch.empty_like(x)]


note.register_autograd(lambda ctx, grad: (note(grad, -1), None))


@leaf_function
def leaf(x: T, y: T) -> tuple[T]:
    log.append(("leaf", float(x.detach().sum())))
    return (x * y,)


@leaf.register_fake
def _leaf_fake(x: T, y: T) -> tuple[T]:
    return (torch.empty_like(x),)


@pytest.fixture(autouse=True)
def effects() -> Iterator[None]:
    handles = [_register_effectful_op(op, _EffectType.ORDERED) for op in (
        torch.ops.og_effects.note.default, torch.ops.og_effects.mark.default,
        torch.ops.og_effects.halves.default)]
    log.clear()
    yield
    for handle in handles:
        handle.destroy()


def print_both(x: T) -> T:
    torch.ops.aten._print("first")
    y = x + 1
    torch.ops.aten._print("second")
    return y


def print_values(x: T) -> T:
    torch._higher_order_ops.print("x {} n {n}", x, n=3)
    return x * 2


def leaves(x: T) -> T:
    a, = leaf(x, x)
    b, = leaf(a + 1, x)
    return b * 2


def notes(x: T) -> T:
    a = note(x, 1)
    note(x * 2, 2)
    note(x * 2, 2)  # equal calls are two effects
    mark(x)
    return a + note(x, 1) + halves(x)[1]


def square(n: int = 4) -> T:
    a = torch.randn(n, n)
    return a @ a.t() + n * torch.eye(n)


def density(a: T) -> T:
    return torch.distributions.MultivariateNormal(
        torch.zeros(a.shape[0]), a, validate_args=False).log_prob(
            torch.ones(a.shape[0]))


# Of the operators that torch registers as effectful. A new one needs a case.
CASES: dict[str, list[Callable[[T], Any]]] = {
    "aten::_print": [print_both],
    "higher_order::print": [print_values],
    "higher_order::invoke_leaf_function": [leaves],
    "aten::_linalg_check_errors": [
        lambda a: torch.linalg.inv(a),
        lambda a: torch.linalg.solve(a, torch.ones(a.shape[0], 2)),
        lambda a: torch.linalg.cholesky(a),
        lambda a: torch.linalg.eigh(a)[0],
        density,
    ],
    "og_effects::note": [notes],
    "og_effects::mark": [notes],
    "og_effects::halves": [notes],
    # torch has no class of its own with a method that a fake can call.
    "higher_order::call_torchbind": [],
}


def test_every_ordered_effect_of_torch_has_a_case() -> None:
    found = {name for name, entry in simple_registry.singleton._data.items()
             if entry.effect.effect is not None}
    assert found == set(CASES)


def seen(capfd: Any) -> Any:
    """What was logged and printed since the last time."""
    found = list(log), capfd.readouterr().out
    log.clear()
    return found


FUNCTIONS = [f for cases in CASES.values() for f in cases]


@pytest.mark.parametrize("how", ["static", "dynamic", "frozen"])
def test_effect_tokens(how: str, capfd: Any) -> None:
    for f in dict.fromkeys(FUNCTIONS):
        torch._dynamo.reset()
        call = (opgraft.freeze(lambda x, f=f: f(x), (square(),))
                if how == "frozen" else
                compiled(f, fullgraph=True, dynamic=how == "dynamic"))
        for n in (4, 5, 6) if how == "dynamic" else (4, 4):
            x = square(n)
            seen(capfd)
            wanted, theirs = f(x), seen(capfd)
            found, mine = call(x), seen(capfd)
            same(found, wanted)
            assert mine == theirs


def test_effects_in_training() -> None:
    for f in (*CASES["aten::_linalg_check_errors"], leaves):
        torch._dynamo.reset()
        a = square().requires_grad_()
        b = a.detach().clone().requires_grad_()
        f(a).sum().backward()
        compiled(f, fullgraph=True)(b).sum().backward()
        assert a.grad is not None and b.grad is not None
        torch.testing.assert_close(b.grad, a.grad, rtol=1e-4, atol=1e-5)


def test_effects_of_backward_are_ordered() -> None:
    def f(x: T) -> T:
        return note(note(x, 1) * 2, 2)

    x = torch.ones(3, requires_grad=True)
    f(x).sum().backward()
    theirs = log[:]
    log.clear()
    torch._dynamo.reset()
    compiled(f, fullgraph=True)(x).sum().backward()
    assert log == theirs and len(log) == 4


kept: list[T] = []


@torch.library.custom_op("og_effects::keep", mutates_args=())
def keep(x: T) -> None:
    kept.append(x)


@keep.register_fake
def _keep_fake(x: T) -> None:
    return None


def test_an_effect_may_keep_what_it_gets() -> None:
    """The plan's memory is overwritten by later steps."""
    def f(x: T) -> T:
        y = (x.cumsum(0) * 2).sin()
        keep(y)
        z = (y.cumsum(0) * 3).cos()
        keep(z)
        return (z.cumsum(0) * 5).sin().sum()

    kept.clear()
    x = torch.randn(4000)
    handle = _register_effectful_op(torch.ops.og_effects.keep.default,
                                    _EffectType.ORDERED)
    f(x)
    compiled(f, fullgraph=True)(x)
    handle.destroy()
    assert len(kept) == 4
    same(kept[2:], kept[:2])


def test_effects_beside_mutation_and_data_sizes() -> None:
    def f(x: T) -> T:
        a = note(x, 1)
        x.add_(1)
        b = note(x.nonzero().float(), 2)
        x.mul_(2)
        return a.sum() + b.sum() + note(x, 3).sum()

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        check(f, torch.randn(5), fullgraph=True)
    assert log[:3] == log[3:] and len(log) == 6


@pytest.mark.parametrize("how", ["compiled", "frozen"])
def test_what_a_check_raises_is_as_in_eager(how: str) -> None:
    def f(x: T) -> T:
        return torch.linalg.inv(x)

    call = (opgraft.freeze(f, (square(),)) if how == "frozen"
            else compiled(f, fullgraph=True))
    call(square())
    with pytest.raises(torch.linalg.LinAlgError) as wanted:
        f(torch.zeros(4, 4))
    with pytest.raises(torch.linalg.LinAlgError) as found:
        call(torch.zeros(4, 4))
    assert str(found.value) == str(wanted.value)
    same(call(x := square()), f(x))
