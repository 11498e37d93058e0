# SPDX-License-Identifier: Apache-2.0
"""vmap of adopted callables: looped, unless the author says otherwise."""

from __future__ import annotations

import pytest
import torch

import opgraft

PACK = dict(shape="x[*N] -> [*N]", dtype="x: f32 -> x")


def softmax(x):
    return torch.softmax(x.flatten(), 0).view(x.shape)


def cumsum(x):
    return x.flatten().cumsum(0).view(x.shape)


def normalized(x):
    return x / x.sum()


def sorted_all(x):
    return x.flatten().sort().values.view(x.shape)


@pytest.mark.parametrize("fn", [softmax, cumsum, normalized, sorted_all])
@pytest.mark.parametrize("shape", [(3,), (3, 4), (3, 2, 5)])
def test_vmap_of_a_callable_that_mixes_elements_is_looped(fn, shape):
    f = opgraft.adopt(fn, f"{fn.__name__}(Tensor x) -> Tensor", **PACK)
    x = torch.rand(shape)
    want = torch.stack([fn(row) for row in x])
    torch.testing.assert_close(torch.func.vmap(f)(x), want)
    op = getattr(torch.ops.test_batch, fn.__name__)
    torch.testing.assert_close(torch.func.vmap(op)(x), want)


def test_batch_pack_is_one_call():
    calls = []

    def double(x):
        calls.append(tuple(x.shape))
        return x * 2

    f = opgraft.adopt(double, "double(Tensor x) -> Tensor", **PACK,
                      batch="pack", backward=lambda grad: grad * 2)
    x = torch.rand(5, 3)
    torch.testing.assert_close(torch.func.vmap(f)(x), x * 2)
    assert calls == [(5, 3)]
    with pytest.raises(ValueError, match="batch is 'rows', expected loop or pack"):
        opgraft.adopt(double, "other(Tensor x) -> Tensor", **PACK,
                      batch="rows")


def test_check_finds_a_pack_that_mixes():
    wrong = opgraft.adopt(cumsum, "cumsum_pack(Tensor x) -> Tensor", **PACK,
                          batch="pack")
    report = opgraft.check(wrong, torch=False)
    kinds = {f.kind for f in report.faults}
    assert kinds & {"mixed_pack", "wrong_batch_rule"}, str(report)
    looped = opgraft.adopt(cumsum, "cumsum_loop(Tensor x) -> Tensor", **PACK)
    assert opgraft.check(looped, torch=False)


def test_vmap_of_an_operator_of_torch_that_mixes_is_looped():
    library = torch.library.Library("test_batch_own", "DEF")
    library.define("softmax(Tensor x) -> Tensor")
    library.impl("softmax", softmax, "CPU")
    op = torch.ops.test_batch_own.softmax
    opgraft.adopt(op, shape="x[*N] -> [*N]", dtype="x: f32 -> x")
    try:
        x = torch.rand(3, 4)
        want = torch.stack([softmax(row) for row in x])
        torch.testing.assert_close(torch.func.vmap(op)(x), want)
    finally:
        opgraft.unadopt(op)
        library._destroy()
