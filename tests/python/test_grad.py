# SPDX-License-Identifier: Apache-2.0
"""Gradients and batching, from the declaration alone."""

from __future__ import annotations

import pytest
import torch
from torch.library import opcheck

import opgraft
from opgraft._load import batch


def test_gradcheck(linear):
    torch.manual_seed(0)
    x = torch.randn(2, 3, 5, dtype=torch.float64, requires_grad=True)
    w = torch.randn(4, 5, dtype=torch.float64, requires_grad=True)
    b = torch.randn(4, dtype=torch.float64, requires_grad=True)
    for f in (linear.custom_linear, torch.ops.custom_linear.custom_linear):
        assert torch.autograd.gradcheck(f, (x, w, b))
        assert torch.autograd.gradcheck(f, (x, w))
        assert torch.autograd.gradgradcheck(f, (x, w, b))


def test_only_what_needs_a_gradient_gets_one(linear):
    x, w = torch.randn(2, 5), torch.randn(4, 5, requires_grad=True)
    linear.custom_linear(x, w).sum().backward()
    assert x.grad is None and w.grad.shape == (4, 5)


def test_missing_gradient_raises(basics):
    x = torch.ones(2, requires_grad=True)
    for f in (basics.no_gradient, torch.ops.basics.no_gradient):
        out = f(x)
        with pytest.raises(RuntimeError, match="no_gradient: has no gradient"):
            out.sum().backward()


def test_declared_zero_gradient(basics):
    x = torch.ones(2, requires_grad=True)
    for f in (basics.zero_gradient, torch.ops.basics.zero_gradient):
        y = f(x) + x
        (g,) = torch.autograd.grad(y.sum(), x)
        assert g.tolist() == [1, 1]


def test_double_backward(basics):
    x = torch.randn(3, dtype=torch.float64, requires_grad=True)
    y = torch.randn(3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(
        lambda a, b: basics.scale_add(a * b, b, 0.5), (x, y))


TWICE = """
#include <opgraft/op.h>
static og_status twice(const og_call *call) {
  for (int64_t i = 0; i < call->dim[0]; ++i)
    og_f32_mut(call->out[0])[i] = 2 * og_f32(call->in[0])[i];
  return OG_OK;
}
static const og_kernel kernels[] = {{.device = OG_CPU, .run = twice}};
static const og_op ops[] = {
    {.schema = "twice(Tensor x) -> Tensor", .shape = "x[N] -> [N]",
     .dtype = "x: f32 -> x", .backward = "twice_backward(grad) -> x",
     .kernels = OG_KERNELS(kernels)},
    {.schema = "twice_backward(Tensor grad) -> Tensor",
     .shape = "grad[N] -> [N]", .dtype = "grad: f32 -> grad",
     .backward = "twice(NAME) -> grad", .kernels = OG_KERNELS(kernels)},
};
OG_MODULE(NAMEd, ops)
"""


def test_an_argument_called_grad_does_not_hide_the_gradient(write_module):
    """The second derivative of sum((2 x)^2 / 2) along v is 4 v, whatever x."""
    m = opgraft.load(write_module(TWICE.replace("NAME", "grad_0"), "grad_0d"))
    x = torch.tensor([5.0, -1.0], requires_grad=True)
    (g,) = torch.autograd.grad((m.twice(x) ** 2 / 2).sum(), x,
                               create_graph=True)
    (h,) = torch.autograd.grad(g.sum(), x)
    assert h.tolist() == [4, 4]
    with pytest.raises(RuntimeError, match="write grad_0 for the gradient"):
        opgraft.load(write_module(TWICE.replace("NAME", "grad"), "gradd"))


WRITES = """
#include <opgraft/op.h>
static og_status add(const og_call *call) {
  for (int64_t i = 0; i < call->dim[0]; ++i)
    og_f32_mut(call->out[0])[i] += 2 * og_f32(call->in[1])[i];
  return OG_OK;
}
static og_status add_backward(const og_call *call) {
  for (int64_t i = 0; i < call->dim[0]; ++i) {
    og_f32_mut(call->out[0])[i] = og_f32(call->in[0])[i];
    og_f32_mut(call->out[1])[i] = 2 * og_f32(call->in[0])[i];
  }
  return OG_OK;
}
static const og_kernel add_kernels[] = {{.device = OG_CPU, .run = add}};
static const og_kernel add_backward_kernels[] = {
    {.device = OG_CPU, .run = add_backward}};
#define ADD(name) .schema = name "(Tensor(a!) x, Tensor y) -> Tensor(a!)", \\
    .shape = "x[N], y[N]", .dtype = "x: f32, y: x", \\
    .kernels = OG_KERNELS(add_kernels)
static const og_op ops[] = {
    {ADD("undeclared_")},
    {ADD("zero_"), .backward = "none"},
    {ADD("declared_"), .backward = "add_backward(grad) -> x, y"},
    {.schema = "add_backward(Tensor grad) -> (Tensor, Tensor)",
     .shape = "grad[N] -> [N], [N]", .dtype = "grad: f32 -> grad, grad",
     .kernels = OG_KERNELS(add_backward_kernels)},
};
OG_MODULE(writes, ops)
"""

ROADS = ["fast", "slow", "eager", "aot_eager", "inductor", "opgraft"]


@pytest.fixture(scope="module")
def writes(build, tmp_path_factory):
    source = tmp_path_factory.mktemp("writes") / "writes.c"
    source.write_text(WRITES)
    return opgraft.load(build(source))


def by_road(module, name, road):
    """A function that calls the operator the given way."""
    torch._dynamo.reset()
    fast = getattr(module, name)
    if road == "fast":
        return fast
    if road == "slow":
        return getattr(getattr(torch.ops, module.namespace), name)
    return torch.compile(lambda *args: fast(*args), backend=road,
                         fullgraph=True)


@pytest.mark.parametrize("road", ROADS)
def test_mutating_operator_without_a_gradient_raises(writes, basics, road):
    """Each would drop y's gradient without a word."""
    y = torch.ones(3, requires_grad=True)
    for module, name, args, why in (
            (writes, "undeclared_", (), "y requires grad, and the operator has"
                                        " no gradient; call it under"),
            (writes, "declared_", (), "y requires grad, and what is written in"
                                      " place passes no gradient on; use "
                                      "declared_functional"),
            (basics, "scale_add_", (2.0,), "y requires grad, and what is "
                                           "written in place passes no "
                                           "gradient on; use scale_add")):
        f = by_road(module, name, road)
        with pytest.raises(Exception, match=f"{name}: {why}"):
            f(torch.ones(3), y, *args)
        x = torch.ones(3)
        with torch.no_grad():
            f(x, y, *args)
        assert x.tolist() == [3, 3, 3]


@pytest.mark.parametrize("road", ROADS)
def test_mutating_operator_with_a_zero_gradient_is_taken(writes, road):
    x, y = torch.ones(3), torch.ones(3, requires_grad=True)
    by_road(writes, "zero_", road)(x, y)
    assert x.tolist() == [3, 3, 3] and not x.requires_grad


@pytest.mark.parametrize("road", ROADS)
def test_functional_form_has_the_gradient_of_the_mutating_one(writes, road):
    x, y = (torch.ones(3, requires_grad=True) for _ in range(2))
    out = by_road(writes, "declared_functional", road)(x, y)
    assert out.tolist() == [3, 3, 3] and x.tolist() == [1, 1, 1]
    out.sum().backward()
    assert x.grad.tolist() == [1, 1, 1] and y.grad.tolist() == [2, 2, 2]
    y = torch.ones(3, requires_grad=True)
    out = by_road(writes, "zero_functional", road)(torch.ones(3), y) + y
    out.sum().backward()
    assert y.grad.tolist() == [1, 1, 1]
    with pytest.raises(Exception, match="undeclared_: has no gradient"):
        by_road(writes, "undeclared_functional", road)(
            torch.ones(3), y).sum().backward()


SAMPLES = [
    ("scale_add", lambda g: (torch.randn(3, requires_grad=g),
                             torch.randn(3, requires_grad=g), 2.0)),
    ("scale_add", lambda g: (torch.randn(3, 4).t(), torch.randn(4, 3), 2.0)),
    ("scale_add", lambda g: (torch.randn(0), torch.randn(0), 2.0)),
    ("scale_add_", lambda g: (torch.randn(3), torch.randn(3), 2.0)),
    ("add_to_", lambda g: (torch.randn(3), 2.0)),
    ("two_writes", lambda g: (torch.randn(3), torch.randn(3))),
    ("scalar_mul", lambda g: (torch.randn(3), 2)),
    ("iota", lambda g: (3,)),
    ("positives", lambda g: (torch.randn(5),)),
    ("halves", lambda g: (torch.randn(5), 2)),
    ("strided_sum", lambda g: (torch.randn(5, 6).t(),)),
    ("row_sums", lambda g: (torch.randn(2, 5, 6),)),
    ("zero_gradient", lambda g: (torch.randn(2, requires_grad=g),)),
]


@pytest.mark.parametrize("name,make", SAMPLES,
                         ids=[f"{n}-{i}" for i, (n, _) in enumerate(SAMPLES)])
def test_opcheck(basics, name, make):
    opcheck(getattr(torch.ops.basics, name).default, make(True))


def test_opcheck_linear(linear):
    op = torch.ops.custom_linear.custom_linear.default
    g = {"requires_grad": True}
    opcheck(op, (torch.randn(2, 5, **g), torch.randn(4, 5, **g)))
    opcheck(op, (torch.randn(3, 2, 5, **g), torch.randn(4, 5, **g),
                 torch.randn(4, **g)))


@pytest.mark.parametrize("dims", [(0, None), (1, None), (0, 0), (None, 0)])
def test_vmap_of_equal_packs_absorbs(basics, dims):
    x = torch.randn(*([4] if dims[0] is not None else []), 3) if dims[
        0] == 0 or dims[0] is None else torch.randn(3, 4)
    y = torch.randn(4, 3) if dims[1] == 0 else torch.randn(3)
    if dims[0] is None:
        x = torch.randn(3)
    before = batch.loops["scale_add"]
    got = torch.func.vmap(lambda a, b: basics.scale_add(a, b, 2.0), dims)(x, y)
    want = torch.func.vmap(lambda a, b: a + 2 * b, dims)(x, y)
    torch.testing.assert_close(got, want)
    assert batch.loops["scale_add"] == before


def test_vmap_of_a_pack_absorbs_and_else_loops(linear):
    x, w = torch.randn(3, 2, 5), torch.randn(4, 5)
    before = batch.loops["custom_linear"]
    got = torch.func.vmap(lambda a: linear.custom_linear(a, w))(x)
    torch.testing.assert_close(got, x @ w.t())
    assert batch.loops["custom_linear"] == before
    ws = torch.randn(3, 4, 5)
    got = torch.func.vmap(linear.custom_linear)(x, ws)
    torch.testing.assert_close(got, torch.func.vmap(
        torch.nn.functional.linear)(x, ws))
    assert batch.loops["custom_linear"] == before + 1


def test_vmap_of_grad(linear):
    w = torch.randn(4, 5)
    x = torch.randn(6, 5)
    got = torch.func.vmap(torch.func.grad(
        lambda a: linear.custom_linear(a, w).pow(2).sum()))(x)
    torch.testing.assert_close(got, 2 * (x @ w.t()) @ w)


def test_vmap_of_an_inplace_operator(basics):
    x, want = torch.zeros(3, 2), torch.ones(3, 2)
    torch.func.vmap(lambda a: basics.add_to_(a, 1.0))(x)
    assert torch.equal(x, want)
