# SPDX-License-Identifier: Apache-2.0
"""What adopted operators write: refused as torch refuses it, by either road,
compiled and frozen."""

from __future__ import annotations

from typing import Any, Callable

import pytest
import torch

import opgraft

T = torch.Tensor


def add_sum_(x: T, other: T) -> None:
    x.add_(other.sum())


def both_(x: T, other: T) -> None:
    x.add_(1)
    other.mul_(2)


def plus(x: T, other: T) -> T:
    return x + other


def plus_into(x: T, other: T, out: T) -> None:
    torch.add(x, other, out=out)


ANY = dict(shape="x[*N], other[*M] ->", dtype="x: f32, other: f32",
           strides="any")
SAME = dict(shape="x[*N], other[*N] -> [*N]", dtype="x: f32, other: f32 -> x")


@pytest.fixture
def made() -> Any:
    adopt = opgraft.adopt
    return {
        "add_sum_": adopt(
            add_sum_, schema="add_sum_(Tensor(a!) x, Tensor other) -> ()",
            name="written::add_sum_", **ANY),
        "both_": adopt(
            both_, schema="both_(Tensor(a!) x, Tensor(b!) other) -> ()",
            name="written::both_", **ANY),
        "plus": adopt(plus, schema="plus(Tensor x, Tensor other) -> Tensor",
                      name="written::plus", **SAME),
        "plus_into": adopt(
            plus_into, schema="plus_into(Tensor x, Tensor other) -> Tensor",
            name="written::plus_into", call="x, other, out", **SAME),
        "plus_over": adopt(
            lambda x, other: x + other, inplace="x",
            schema="plus_over(Tensor x, Tensor other) -> Tensor",
            name="written::plus_over", **SAME),
    }


def fast(made: Any, name: str) -> Callable[..., Any]:
    f = made[name]
    if name.startswith("plus"):
        return lambda x, o, y: f(x, o, out=y)
    return lambda x, o: f(x, o)


def slow(made: Any, name: str) -> Callable[..., Any]:
    packet = getattr(torch.ops.written, name)
    if name.startswith("plus"):
        return lambda x, o, y: packet.out(x, o, out=y)
    return lambda x, o: packet(x, o)


def compiled(made: Any, name: str) -> Callable[..., Any]:
    torch._dynamo.reset()
    return torch.compile(fast(made, name), backend="opgraft", fullgraph=True)


def frozen(made: Any, name: str) -> Callable[..., Any]:
    def call(*args: T) -> Any:
        own = tuple(torch.empty_strided(
            t.shape, t.stride(), dtype=t.dtype) for t in args)
        return opgraft.freeze(fast(made, name), own)(*args)

    return call


ROADS = {f.__name__: f for f in (fast, slow, compiled, frozen)}


@pytest.fixture(params=ROADS)
def road(request: Any, made: Any) -> Callable[[str], Callable[..., Any]]:
    return lambda name: ROADS[request.param](made, name)


def base() -> T:
    return torch.randn(64, generator=torch.Generator().manual_seed(1))


def refuses(f: Callable[..., Any], *args: T, match: str) -> None:
    """And writes nothing."""
    before = [t.detach().clone() for t in args]
    with pytest.raises(Exception, match=match):
        f(*args)
    for t, was in zip(args, before):
        assert torch.equal(t, was)


WRITTEN = "is written(,)? and "
REFUSED = {
    "an input inside": ("add_sum_", lambda b: (b[:12].view(3, 4), b[4:8])),
    "strides that cross": ("add_sum_", lambda b: (b[:12:2], b[1:3])),
    "itself": ("add_sum_", lambda b: (b[:12], b[:12])),
    "expanded": ("add_sum_", lambda b: (b[:4].expand(3, 4), b[40:44])),
    "folded": ("add_sum_",
               lambda b: (b.as_strided((3, 4), (3, 1)), b[40:44])),
    "two are one": ("both_", lambda b: (b[:12], b[:12])),
    "two overlap": ("both_", lambda b: (b[:12], b[4:6])),
    **{f"{name}, {what}": (name, views)
       for name in ("plus", "plus_into", "plus_over")
       for what, views in {
           "out overlaps x": lambda b: (b[:12], b[40:52], b[4:16]),
           "out is other": lambda b: (b[:12], b[40:52], b[40:52]),
           "out is expanded": lambda b: (
               b[:12].view(3, 4), b[40:52].view(3, 4), b[20:24].expand(3, 4)),
       }.items()},
    "plus, out is x": ("plus", lambda b: (b[:12], b[40:52], b[:12])),
    "plus_into, out is x": ("plus_into", lambda b: (b[:12], b[40:52], b[:12])),
}


@pytest.mark.parametrize("case", REFUSED)
def test_writes_that_overlap_are_refused(road: Any, case: str) -> None:
    name, views = REFUSED[case]
    refuses(road(name), *views(base()), match=WRITTEN)


def test_views_side_by_side_are_taken(road: Any) -> None:
    b = base()
    x, other = b[:12:2], b[1:13:2]
    want = x + other.sum()
    road("add_sum_")(x, other)
    torch.testing.assert_close(x, want)


@pytest.mark.parametrize("name", ["fast", "slow", "compiled"])
def test_out_may_be_the_input_that_inplace_names(made: Any, name: str) -> None:
    """A frozen graph takes its inputs for apart, and refuses it."""
    b = base()
    x, other = b[:12], b[40:52]
    want = x + other
    ROADS[name](made, "plus_over")(x, other, x)
    torch.testing.assert_close(x, want)
    refuses(frozen(made, "plus_over"), x, other, x,
            match="is written and is the same memory as")


@pytest.mark.parametrize("which", [0, 2])
@pytest.mark.parametrize("name", ["plus", "plus_into", "plus_over"])
def test_out_beside_gradients_is_refused(
    road: Any, name: str, which: int
) -> None:
    args = [torch.ones(3), torch.ones(3), torch.zeros(3)]
    args[which].requires_grad_()
    refuses(road(name), *args,
            match="don't support automatic differentiation|requires grad")


@pytest.mark.parametrize("name, which", [
    ("add_sum_", 0), ("both_", 0), ("both_", 1), ("plus", 2),
    ("plus_into", 2), ("plus_over", 2)])
def test_inference_tensors_are_written_in_inference_mode_only(
    road: Any, name: str, which: int
) -> None:
    args = [torch.ones(3) for _ in range(3 if name.startswith("plus") else 2)]
    with torch.inference_mode():
        args[which] = torch.ones(3)
    refuses(road(name), *args, match="Inplace update to inference tensor ")


# --- What a callable returns ---------------------------------------------------------

kept = torch.randn(2, 3, 4)


@pytest.mark.parametrize("name, returns", [
    ("itself", lambda x: x), ("a_view", lambda x: x[..., :]),
    ("its_neighbour", lambda x: kept[:, 1])])
def test_a_result_keeps_what_a_later_write_to_the_argument_changes(
    name: str, returns: Callable[[T], T]
) -> None:
    f = opgraft.adopt(returns, schema=f"{name}(Tensor x) -> Tensor",
                      shape="x[*N] -> [*N]", dtype="x: f32 -> x",
                      name=f"written::{name}", strides="any")
    for call in (f, getattr(torch.ops.written, name)):
        x = kept[:, 0]
        want = returns(x).clone()
        found = call(x)
        x.add_(1)
        assert torch.equal(found, want)
