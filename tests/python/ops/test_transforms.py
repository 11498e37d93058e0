# SPDX-License-Identifier: Apache-2.0
"""torch.func's transforms of every differentiable operator of the library and
of the test modules, against autograd and against differences."""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Iterator

import pytest
import torch
from torch.autograd import forward_ad
from torch.func import grad, hessian, jacfwd, jacrev, jvp, vjp, vmap

import opgraft
from opgraft.check_torch import _flat, _invoke, calls

SOURCES = ("tests/ops/custom_op_db.c", "tests/ops/index.c", "tests/ops/linear.c",
           "tests/ops/pointwise.c", "tests/ops/reduce.c", "tests/ops/shape.c",
           "tests/python/basics.c")
SEED, STEP, MOST = 5, 1e-3, 200


class Case:
    """A sampled call as a function of the floating arguments that get a
    gradient."""

    def __init__(self, d: Any, f: Callable[..., Any], values: list[Any]) -> None:
        self.d, self.f, self.values = d, f, values
        self.places = [i for i in d.tables["grad"]["targets"]
                       if isinstance(values[i], torch.Tensor)
                       and values[i].is_floating_point()]
        self.at = tuple(values[i].clone() for i in self.places)
        self.every = tuple(range(len(self.at)))
        torch.manual_seed(1)
        self.weights = tuple(torch.randn(o.shape, dtype=o.dtype)
                             for o in self.outs(*self.at))

    def outs(self, *tensors: Any) -> tuple[torch.Tensor, ...]:
        own = list(self.values)
        for i, t in zip(self.places, tensors, strict=True):
            own[i] = t
        return tuple(t for t in _flat(_invoke(self.d, self.f, own))
                     if isinstance(t, torch.Tensor) and t.is_floating_point())

    def loss(self, *tensors: Any) -> torch.Tensor:
        return sum((o * w).sum() for o, w in zip(  # type: ignore[return-value]
            self.outs(*tensors), self.weights, strict=True))

    def autograd(self, *at: torch.Tensor) -> tuple[torch.Tensor, ...]:
        own = tuple(t.detach().clone().requires_grad_() for t in at)
        return torch.autograd.grad(self.loss(*own), own)

    def slope(self, f: Callable[..., torch.Tensor],
              way: list[torch.Tensor]) -> float:
        """Along `way`, from differences; NaN where two steps disagree."""
        def one(step: float) -> float:
            ends = [f(*(t + s * step * w for t, w in zip(
                self.at, way, strict=True))).double() for s in (1, -1)]
            return float((ends[0] - ends[1]) / (2 * step))
        step = STEP if self.at[0].dtype == torch.float64 else 30 * STEP
        coarse, fine = one(step), one(step / 2)
        is_near = abs(coarse - fine) <= 0.02 * abs(fine) + 0.01
        return fine if is_near else float("nan")


def cases(m: Any) -> Iterator[tuple[str, Case]]:
    """The first call of every differentiable operator, by both roads."""
    for name, d in m._descriptions.items():
        if d.tables["grad"]["kind"] != "operator" or d.mutated or (
                d.is_data_dependent or "random" in d.tables["flags"]):
            continue
        op = getattr(getattr(torch.ops, m.namespace), d.base_name)
        found = first(d, getattr(m, name.replace(".", "_")), m)
        if found is not None:
            yield name, found
            yield f"torch.ops {name}", Case(
                d, getattr(op, d.overload or "default"), found.values)


def first(d: Any, f: Callable[..., Any], m: Any) -> Case | None:
    for draws in calls(m, d, SEED):
        for _, values in draws:
            try:
                case = Case(d, f, values)
            except RuntimeError:
                continue  # the kernel's own refusal
            if case.at and all(
                    0 < t.numel() <= MOST and t.itemsize >= 4
                    for t in case.at) and case.weights:
                return case
    return None


def see_first_order(case: Case) -> None:
    want = case.autograd(*case.at)
    near(grad(case.loss, case.every)(*case.at), want)
    outs, pull = vjp(case.outs, *case.at)
    near(outs, case.outs(*case.at))
    near(pull(case.weights), want)
    rows = jacrev(case.outs, case.every)(*case.at)
    near(tuple(sum(torch.tensordot(w, row[a], dims=w.dim())
                   for row, w in zip(rows, case.weights, strict=True))
               for a in case.every), want)
    torch.manual_seed(2)
    way = [torch.randn_like(t) for t in case.at]
    slope = case.slope(case.loss, way)
    if slope == slope:  # no kink between
        found = sum(float((g * w).sum()) for g, w in zip(want, way, strict=True))
        assert abs(found - slope) <= 0.05 * abs(slope) + 0.05, (found, slope)


def see_batch(case: Case) -> None:
    batch = tuple(torch.stack([t, t * 0.5, t * 0.25]) for t in case.at)
    want = [case.autograd(*(t[i] for t in batch)) for i in range(3)]
    stacked = tuple(torch.stack(g) for g in zip(*want, strict=True))
    near(vmap(grad(case.loss, case.every))(*batch), stacked)
    total = grad(lambda *b: vmap(case.loss)(*b).sum(), case.every)(*batch)
    near(total, stacked)


def see_second_order(case: Case) -> None:
    own = tuple(t.clone().requires_grad_() for t in case.at)
    firsts = torch.autograd.grad(case.loss(*own), own, create_graph=True)
    total = sum((g * g).sum() for g in firsts)
    if not total.requires_grad:  # a linear operator's gradient
        return
    want = torch.autograd.grad(total, own, allow_unused=True)
    got = grad(lambda *t: sum((g * g).sum() for g in grad(
        case.loss, case.every)(*t)), case.every)(*case.at)
    near(got, tuple(torch.zeros_like(t) if g is None else g
                    for g, t in zip(want, case.at, strict=True)))
    twice = jacrev(jacrev(case.loss))(*case.at)
    row = torch.autograd.functional.hessian(
        lambda t: case.loss(t, *case.at[1:]), case.at[0])
    near((twice,), (row,))


def see_forward_mode(case: Case) -> None:
    way = tuple(torch.ones_like(t) for t in case.at)
    own = list(case.values)
    if case.d.tables["is_formula_derived"]:
        with contextlib.suppress(NotImplementedError):  # seen below
            _, tangent = jvp(case.loss, case.at, way)
            slopes = grad(case.loss, case.every)(*case.at)
            near((tangent,), (sum(s.sum() for s in slopes),))
            return
    for call in (lambda: jvp(case.outs, case.at, way),
                 lambda: jacfwd(case.loss)(*case.at),
                 lambda: dual_numbers(case, own, torch.enable_grad()),
                 lambda: dual_numbers(case, own, torch.no_grad())):
        try:
            call()
        except NotImplementedError as error:
            assert "has no forward-mode derivative" in str(error)
        else:
            raise AssertionError("a derivative in forward mode was not refused")
    try:
        found = hessian(case.loss)(*case.at)
    except NotImplementedError as error:
        assert "jacrev(jacrev(f))" in str(error)
    else:  # a linear operator's gradient does not change
        near((found,), (jacrev(jacrev(case.loss))(*case.at),))


def dual_numbers(case: Case, own: list[Any], mode: Any) -> None:
    with mode, forward_ad.dual_level():
        for i, t in zip(case.places, case.at, strict=True):
            own[i] = forward_ad.make_dual(t, torch.ones_like(t))
        _invoke(case.d, case.f, own)


def near(got: Any, want: Any) -> None:
    torch.testing.assert_close(tuple(got), tuple(want), rtol=2e-4, atol=2e-4)


def see(m: Any) -> int:
    seen, wrong = 0, []
    for name, case in cases(m):
        seen += 1
        backward = m._descriptions[case.d.tables["grad"]["op"]]
        steps = [see_first_order, see_batch, see_forward_mode]
        if backward.tables["grad"]["kind"] == "operator":
            steps.append(see_second_order)
        for step in steps:
            try:
                step(case)
            except Exception as error:
                wrong.append(f"{name}: {step.__name__}: "
                             f"{type(error).__name__}: {str(error)[:300]}")
    assert not wrong, "\n".join(wrong)
    return seen


def test_transforms_of_every_operator_of_the_library(ops: Any) -> None:
    seen = {name: see(m) for name, m in ops._modules.items()}
    assert sum(count > 0 for count in seen.values()) >= 5, seen


@pytest.mark.parametrize("source", SOURCES)
def test_transforms_of_every_operator_of_the_test_modules(
    build: Any, source: str,
) -> None:
    m = opgraft.load(str(build(source)))
    assert see(m) > 0
