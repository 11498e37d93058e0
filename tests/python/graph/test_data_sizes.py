# SPDX-License-Identifier: Apache-2.0
"""Sizes that depend on data: plans up to where a size becomes known, and from
there."""

from __future__ import annotations

from typing import Any, Callable, Iterator

import pytest
import torch
from compare import compiled, same

import opgraft

T = torch.Tensor


@pytest.fixture(autouse=True)
def capture() -> Iterator[None]:
    config = torch._dynamo.config
    with config.patch(capture_scalar_outputs=True,
                      capture_dynamic_output_shape_ops=True):
        yield


def nonzero(x: T) -> Any:
    i = (x > 0).nonzero()
    return i.float().sum(0), x[x > 0] * 2


def masked_select(x: T) -> Any:
    m = torch.masked_select(x, x > x.flip(0))
    return m.exp().sum(), m + 1


def twice(x: T) -> Any:
    a = x[x > 0]
    b = a[a > 1]
    return a.cumsum(0), b * 3, b.shape[0], a.shape[0] + 1


def unique(x: T) -> Any:
    u, counts = torch.unique(x.round(), return_counts=True)
    return u * 2, counts.sum(), u.softmax(0)


def a_number(x: T) -> Any:
    return x * x.max().item() + 1


def written(x: T) -> Any:
    i = (x > 0).nonzero()
    x.add_(1)
    return i * 2, x * 3


def only_views(x: T) -> Any:
    y = x[x > 0]
    return y[None], y.view(1, -1).t()


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("f", [nonzero, masked_select, twice, unique, a_number,
                               written, only_views])
def test_equal_to_eager(f: Callable[..., Any], dynamic: Any) -> None:
    c = compiled(f, fullgraph=True, dynamic=dynamic)
    for n in (4, 4, 7, 5, 4, 1):
        x = torch.randn(n, 3) if f is nonzero else torch.randn(n) * 2
        mine, theirs = x.clone(), x.clone()
        same(c(mine), f(theirs), rtol=1e-5, atol=1e-6)
        assert torch.equal(mine, theirs)


def test_nothing_is_found() -> None:
    c = compiled(nonzero, fullgraph=True)
    for value in (1.0, -1.0, 1.0):
        x = torch.full((4, 3), value)
        same(c(x), nonzero(x))


def test_sizes_read_from_a_tensor() -> None:
    def f(n: T, x: T) -> Any:
        k = n.item()
        torch._check(k >= 0)
        torch._check(k <= 100)
        return torch.arange(k) * 2, torch.ones(k, 3) * x.sum(), k + 1

    c = compiled(f, fullgraph=True)
    for k in (3, 0, 5, 3):
        n, x = torch.tensor(k), torch.randn(2)
        same(c(n, x), f(n, x))
    with pytest.raises(RuntimeError):
        c(torch.tensor(-1), torch.randn(2))


def test_a_size_that_returns_is_not_planned_again() -> None:
    def f(x: T) -> T:
        return x[x > 0].cumsum(0) * 2

    c = compiled(f, fullgraph=True)
    inputs = [torch.tensor([1.0] * n + [-1.0] * (9 - n)) for n in (3, 4, 3, 4)]
    for x in inputs * 3:
        same(c(x), f(x))
    found = opgraft.stats(c)
    (after,) = [g for g in found.graphs if g["kind"] == "inference_1"]
    assert after["replans_shape"] == 2 and after["replays"] == 12
    assert [f["operator"] for f in found.fallbacks] == ["aten.index.Tensor"]
    assert found.fallbacks[0]["reason"] == (
        "the size of a result depends on data")
    assert found.fallbacks[0]["file"] == __file__


def test_the_fallback_gate_names_the_operator() -> None:
    c = compiled(lambda x: x[x > 0] + 1, fullgraph=True,
                 options={"fallback": "error"})
    with pytest.raises(Exception, match="aten.index.Tensor falls back"):
        c(torch.randn(4))


def test_gradients() -> None:
    def f(x: T, w: T) -> T:
        y = x * w
        z = y[y.detach() > 0]
        return (z * z).sum() + z.exp().mean()

    c = compiled(f, fullgraph=True)
    for n in (4, 9, 4, 12):
        x = torch.rand(n) + 0.1
        mine = torch.rand(n, requires_grad=True)
        theirs = mine.detach().clone().requires_grad_()
        c(x, mine).backward()
        f(x, theirs).backward()
        same(mine.grad, theirs.grad)


def test_an_operator_with_a_data_dependent_result(ops_nms: Any) -> None:
    def f(boxes: T, scores: T) -> Any:
        keep = ops_nms(boxes * 1.0, scores.exp(), 0.5)
        return boxes[keep] + 1, scores[keep].sum()

    c = compiled(f, fullgraph=True)
    for n in (6, 6, 20, 1):
        corner = torch.rand(n, 2) * 4
        boxes = torch.cat([corner, corner + 1 + torch.rand(n, 2)], 1)
        scores = torch.randn(n)
        same(c(boxes, scores), f(boxes, scores))


@pytest.fixture
def ops_nms() -> Iterator[Any]:
    """An operator whose result is as long as its data says."""
    lib = torch.library.Library("data_sizes", "DEF")
    lib.define("nms(Tensor boxes, Tensor scores, float limit) -> Tensor")

    def nms(boxes: T, scores: T, limit: float) -> T:
        kept: list[int] = []
        area = (boxes[:, 2:] - boxes[:, :2]).prod(1)
        for i in scores.argsort(descending=True).tolist():
            low = torch.maximum(boxes[i, :2], boxes[kept, :2])
            high = torch.minimum(boxes[i, 2:], boxes[kept, 2:])
            both = (high - low).clamp(min=0).prod(1)
            if not (both / (area[i] + area[kept] - both) > limit).any():
                kept.append(i)
        return torch.tensor(kept, dtype=torch.int64)

    def fake(boxes: T, scores: T, limit: float) -> T:
        size = torch.library.get_ctx().new_dynamic_size()
        return torch.empty(size, dtype=torch.int64)

    lib.impl("nms", nms, "CPU")
    torch.library.register_fake("data_sizes::nms", fake)
    yield torch.ops.data_sizes.nms
    lib._destroy()


# --- Views across a cut -----------------------------------------------------------


def view_read_after(x: T) -> Any:
    v = x[1:]
    i = (x > 0).nonzero()
    z = v * 2 + i.sum()
    x.add_(1)
    return z, i * 2, v * 3


def view_of_view_read_after(x: T) -> Any:
    v = x.view(2, -1).t()[1:]
    n = x.sum().item()
    z = v + n
    x.mul_(2)
    return z, v


def part_of_split_read_after(x: T) -> Any:
    a, b = x.split(x.shape[0] // 2)
    i = (x > 1).nonzero()
    z = a.sum() + b * 2 + i.sum()
    b.sub_(1)
    return z, a.cumsum(0)


def view_read_by_the_cut(x: T) -> Any:
    v = x[2:]
    i = (v > 1).nonzero()
    z = v.exp() * i.shape[0]
    x.zero_()
    return z, i, v


def view_given_back(x: T) -> Any:
    v = x[1:]
    i = (v > 1).nonzero()
    z = v.sin() + i.sum()
    x.neg_()
    return v, z


def two_cuts(x: T) -> Any:
    v = x[::2]
    n = x.sum().item()
    w = v + n
    i = (w > 1).nonzero()
    x[1:3].copy_(w[:2])
    return w * i.shape[0], v, v.sum()


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("f", [
    view_read_after, view_of_view_read_after, part_of_split_read_after,
    view_read_by_the_cut, view_given_back, two_cuts])
def test_a_view_outlives_a_cut_and_its_input_is_written(
    f: Callable[..., Any], dynamic: Any
) -> None:
    c = compiled(f, fullgraph=True, dynamic=dynamic)
    for n in (6, 6, 8, 6):
        x = torch.rand(n, generator=torch.Generator().manual_seed(n)) + 0.5
        mine, theirs = x.clone(), x.clone()
        same(c(mine), f(theirs), rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-6)
