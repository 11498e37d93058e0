# SPDX-License-Identifier: Apache-2.0
"""Lists of tensors whose sizes differ, as arguments, results and gradients."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import opgraft

ROWS = dict(shape="xs[][N~, D] -> [sum(N~), D]", dtype="xs: f64 -> xs")
EACH = dict(shape="xs[][N~, D~] -> {i < len(xs): [N~[i], D~[i]]}",
            dtype="xs: f64 -> xs")
MODES: list[Any] = ["eager", "op", "aot_eager", "opgraft", "dynamic"]


def mode_of(f: Any, mode: str, name: str) -> Any:
    if mode == "op":
        return getattr(torch.ops.lists, name)
    if mode == "eager":
        return f
    return torch.compile(
        lambda *values: f(*values), fullgraph=True,
        backend="opgraft" if mode == "dynamic" else mode,
        dynamic=mode == "dynamic")


def draw(*sizes: tuple[int, ...]) -> list[torch.Tensor]:
    return [torch.randn(s, dtype=torch.float64, requires_grad=True)
            for s in sizes]


def pack(backward: Any) -> Any:
    return opgraft.adopt(
        lambda xs, k: torch.cat(xs) * k, name="lists::pack", backward=backward,
        schema="pack(Tensor[] xs, Tensor k) -> Tensor",
        shape="xs[][N~, D], k[D] -> [sum(N~), D]", dtype="xs: f64, k: xs -> xs")


def pack_grads(grad: Any, xs: Any, k: Any) -> Any:
    return ([g * k for g in grad.split([len(x) for x in xs])],
            (grad * torch.cat(xs)).sum(0))


def each(backward: Any = None) -> Any:
    return opgraft.adopt(lambda xs: [x * 2 for x in xs], name="lists::each",
                         schema="each(Tensor[] xs) -> Tensor[]", **EACH,
                         backward=backward)


@pytest.mark.parametrize("mode", MODES)
def test_rows_that_differ(mode):
    f = mode_of(pack(None), mode, "pack")
    for sizes in ([(2, 3), (0, 3), (5, 3)], [(1, 3)], [(4, 3), (4, 3)]):
        xs, k = [x.detach() for x in draw(*sizes)], torch.arange(3.0).double()
        torch.testing.assert_close(f(xs, k), torch.cat(xs) * k)


@pytest.mark.parametrize("mode", MODES)
def test_results_that_differ(mode):
    f = mode_of(each(), mode, "each")
    for sizes in ([(2, 3), (0, 5), (4, 1)], [(1, 3)]):
        xs = [x.detach() for x in draw(*sizes)]
        torch.testing.assert_close(list(f(xs)), [x * 2 for x in xs])


@pytest.mark.parametrize("mode", MODES)
def test_gradients_of_lists(mode):
    f = mode_of(pack(pack_grads), mode, "pack")
    xs, (k,) = draw((2, 3), (1, 3), (4, 3)), draw((3,))
    wanted = torch.autograd.grad((torch.cat(xs) * k).sin().sum(), [*xs, k])
    found = torch.autograd.grad(f(xs, k).sin().sum(), [*xs, k])
    torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("mode", MODES)
def test_gradients_of_list_results(mode):
    f = mode_of(each(lambda grad, xs: [g * 2 for g in grad]), mode, "each")
    xs = draw((2, 3), (4, 1))
    found = torch.autograd.grad(sum(y.sin().sum() for y in f(xs)), xs)
    torch.testing.assert_close(
        found, tuple(2 * (2 * x).cos().detach() for x in xs))


@pytest.mark.parametrize("given, wanted", [
    (lambda grad: None, [0, 0]), (lambda grad, xs: None, [0, 0]),
    (lambda grad: [None, grad[2:] * 3], [0, 3]),
    (lambda grad: [grad[:2], grad[2:].numpy()], [1, 1])])
def test_a_list_s_gradient_may_be_none_a_view_or_an_array(given, wanted):
    f = opgraft.adopt(lambda xs: torch.cat(xs), "cat(Tensor[] xs) -> Tensor",
                      name="lists::cat", **ROWS, backward=given)
    for run in (f, torch.compile(f, backend="aot_eager")):
        xs = draw((2, 3), (1, 3))
        run(xs).sum().backward()
        assert [x.grad.mean().item() for x in xs] == wanted


def test_gradcheck_and_transforms_of_lists():
    f = pack(pack_grads)
    a, b, k = draw((2, 3), (1, 3), (3,))
    assert torch.autograd.gradcheck(lambda a, b, k: f([a, b], k), (a, b, k))

    def loss(run):
        return lambda a, b, k: run([a, b], k).sin().sum()

    def plain(xs, k):
        return torch.cat(xs) * k

    values = tuple(t.detach() for t in (a, b, k))
    for transform in (torch.func.grad, torch.func.jacrev):
        torch.testing.assert_close(
            transform(loss(f), (0, 1, 2))(*values),
            transform(loss(plain), (0, 1, 2))(*values))
    many = [torch.stack([v, v * 2]) for v in values]
    torch.testing.assert_close(
        torch.vmap(torch.func.grad(loss(f), (0, 2)))(*many),
        torch.vmap(torch.func.grad(loss(plain), (0, 2)))(*many))


def test_check_finds_nothing_in_lists():
    for f in (pack(pack_grads), each(lambda grad, xs: [g * 2 for g in grad])):
        report = opgraft.check(f, calls=8)
        assert report, str(report)


def test_a_list_of_another_length_is_an_error():
    f = opgraft.adopt(lambda xs: xs[:1], "first(Tensor[] xs) -> Tensor[]",
                      name="lists::first", **EACH)
    with pytest.raises(RuntimeError, match="list of 1 tensors here, its shape "
                                           "rule says 2"):
        f([x.detach() for x in draw((1, 2), (2, 2))])
