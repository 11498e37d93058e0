# SPDX-License-Identifier: Apache-2.0
"""torch.func's transforms of adopted callables, against torch's own."""

from __future__ import annotations

import pytest
import torch
from torch.func import grad, jacrev, jvp, vjp, vmap

import opgraft

PACK = dict(shape="x[*N] -> [*N]", dtype="x: f32|f64 -> x")


def softmax(x):
    return torch.softmax(x.flatten(), 0).view(x.shape)


def softmax_backward(grad, result):
    return result * (grad - (grad * result).sum())


def cube(x):
    return x.detach() ** 3


def cube_backward(grad, x):
    return 3 * grad * x * x


def by_python(fn, backward):
    f = opgraft.adopt(fn, f"{fn.__name__}(Tensor x) -> Tensor", **PACK,
                      backward=backward)
    return (f,)


def by_torch_ops(fn, backward):
    library = torch.library.Library("transforms_own", "FRAGMENT")
    library.define(f"{fn.__name__}(Tensor x) -> Tensor")
    library.impl(fn.__name__, fn, "CPU")
    op = getattr(torch.ops.transforms_own, fn.__name__).default
    opgraft.adopt(op, **PACK, backward=backward)
    return op, library


@pytest.mark.parametrize("road", [by_python, by_torch_ops])
@pytest.mark.parametrize("fn, backward, right", [
    (softmax, softmax_backward, lambda x: torch.softmax(x.flatten(), 0).view(
        x.shape)),
    (cube, cube_backward, lambda x: x ** 3)])
def test_transforms_of_adopted_callables(road, fn, backward, right):
    f, *library = road(fn, backward)
    torch.manual_seed(0)
    x, weight = torch.rand(4, 3), torch.rand(3)

    def loss(f):
        return lambda x: (f(x) * weight).sum()

    def near(a, b):
        torch.testing.assert_close(a, b)

    near(grad(loss(f))(x[0]), grad(loss(right))(x[0]))
    near(jacrev(f)(x[0]), jacrev(right)(x[0]))
    near(vjp(f, x[0])[1](weight), vjp(right, x[0])[1](weight))
    near(vmap(grad(loss(f)))(x), vmap(grad(loss(right)))(x))
    near(vmap(jacrev(f))(x), vmap(jacrev(right))(x))
    row = x[0].clone().requires_grad_()
    near(torch.autograd.grad(f(row), row, torch.eye(3),
                             is_grads_batched=True)[0], jacrev(right)(x[0]))
    with pytest.raises(NotImplementedError, match="no forward-mode derivative"):
        jvp(f, (x[0],), (x[0],))
    y = x[0].double().requires_grad_()
    assert torch.autograd.gradcheck(f, (y,))
    if library:
        opgraft.unadopt(f)
        library[0]._destroy()
