# SPDX-License-Identifier: Apache-2.0
"""torch.compile, torch.export and make_fx: one graph, equal numbers."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch

BACKENDS = ["eager", "aot_eager", "inductor"]


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def both(m, name):
    """The function that the user calls, and its torch.ops form."""
    return getattr(m, name), getattr(getattr(torch.ops, m.namespace), name)


@pytest.mark.parametrize("backend", BACKENDS)
def test_functional(basics, backend):
    for op in both(basics, "scale_add"):
        f = torch.compile(
            lambda x, y, op=op: op(torch.relu(x), y, 2.0) + 1,
            backend=backend, fullgraph=True)
        x, y = torch.randn(4, 5), torch.randn(4, 5)
        torch.testing.assert_close(f(x, y), torch.relu(x) + 2 * y + 1)
        torch.testing.assert_close(f(x.t(), y.t()),
                                   torch.relu(x.t()) + 2 * y.t() + 1)


@pytest.mark.parametrize("backend", BACKENDS)
def test_keywords_and_defaults(basics, backend):
    f = torch.compile(lambda x, y: basics.scale_add(x, y=y, a=3.0)
                      + basics.scale_add(x, y), backend=backend,
                      fullgraph=True)
    x = torch.ones(3)
    assert f(x, x).tolist() == [5.5] * 3


@pytest.mark.parametrize("backend", BACKENDS)
def test_inplace_and_mutation(basics, backend):
    def f(x, y):
        z = x.clone()
        basics.scale_add_(z, y, 2.0)
        basics.add_to_(z, 1.0)
        w = basics.add_to_(y, 1.0)
        return z, w + 1

    x, y = torch.randn(4), torch.randn(4)
    y2 = y.clone()
    want = f(x, y)
    got = torch.compile(f, backend=backend, fullgraph=True)(x, y2)
    torch.testing.assert_close(got, want)
    torch.testing.assert_close(y2, y)


@pytest.mark.parametrize("backend", BACKENDS)
def test_two_mutated_arguments(basics, backend):
    def f(a, b):
        s = basics.two_writes(a, b)
        return s + a + b

    a, b = torch.ones(3), torch.ones(3)
    got = torch.compile(f, backend=backend, fullgraph=True)(a, b)
    assert got.tolist() == [8] * 3
    assert a.tolist() == [2] * 3 and b.tolist() == [2] * 3


@pytest.mark.parametrize("backend", BACKENDS)
def test_out_form(basics, backend):
    def f(x, y):
        out = torch.empty_like(x)
        basics.scale_add(x, y, 2.0, out=out)
        return out + 1

    x = torch.ones(3)
    f = torch.compile(f, backend=backend, fullgraph=True)
    assert f(x, x).tolist() == [4] * 3


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_kind(basics, backend):
    def f(x):
        return basics.every_kind(x, x, [x, x], 3, True, [1, 2], [0.5],
                                 "plus", more=1) + 1

    x = torch.ones(1)
    got = torch.compile(f, backend=backend, fullgraph=True)(x)
    assert got.tolist() == [1024.5]


@pytest.mark.parametrize("backend", BACKENDS)
def test_lists_scalars_and_found_sizes(basics, backend):
    def f(x):
        parts = basics.halves(x, 2)
        where = basics.positives(x)
        return parts[0] + 1, basics.scalar_mul(x, 3), where * 2

    x = torch.tensor([1.0, -1, 2])
    a, b, c = torch.compile(f, backend=backend, fullgraph=True)(x)
    assert a.tolist() == [2, 0] and b.tolist() == [3, -3, 6]
    assert c.tolist() == [0, 4]


@pytest.mark.parametrize("backend", BACKENDS)
def test_dynamic_shapes_compile_once(linear, backend):
    count = torch._dynamo.testing.CompileCounterWithBackend(backend)
    f = torch.compile(lambda x, w: linear.custom_linear(x, w) + 1,
                      backend=count, fullgraph=True, dynamic=True)
    for n in (2, 3, 7, 20):
        x, w = torch.randn(n, 5), torch.randn(4, 5)
        torch.testing.assert_close(f(x, w), x @ w.t() + 1)
    assert count.frame_count == 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_training(linear, backend):
    x = torch.randn(6, 5)
    weights = [torch.randn(4, 5, requires_grad=True),
               torch.randn(4, requires_grad=True)]

    def f(x, w, b):
        return torch.relu(linear.custom_linear(x, w, b)).sum()

    def g(x, w, b):
        return torch.relu(torch.nn.functional.linear(x, w, b)).sum()

    got = torch.autograd.grad(
        torch.compile(f, backend=backend, fullgraph=True)(x, *weights), weights)
    torch.testing.assert_close(got, torch.autograd.grad(g(x, *weights), weights))


class Model(torch.nn.Module):
    def __init__(self, m):
        super().__init__()
        self.m = m
        self.weight = torch.nn.Parameter(torch.randn(4, 5))

    def forward(self, x):
        y = self.m.custom_linear(x, self.weight)
        return torch.relu(y)


@pytest.mark.parametrize("strict", [True, False])
def test_export(linear, strict):
    model, x = Model(linear), torch.randn(3, 5)
    batch = torch.export.Dim("batch", min=2)
    program = torch.export.export(model, (x,), strict=strict,
                                  dynamic_shapes=({0: batch},))
    assert "custom_linear.custom_linear" in str(program.graph)
    for n in (2, 9):
        x = torch.randn(n, 5)
        torch.testing.assert_close(program.module()(x), model(x))


def test_lowered_into_inductor(basics):
    from torch._inductor.utils import run_and_get_code

    def f(x, y):
        for _ in range(3):
            x = basics.scale_add(x, y, 0.5)
        return x

    x, y = torch.randn(8), torch.randn(8)
    got, code = run_and_get_code(torch.compile(f, fullgraph=True), x, y)
    torch.testing.assert_close(got, f(x, y))
    assert "extern_kernels.opgraft_" in code[0]
    assert "torch.ops.basics" not in code[0]


def test_several_results_are_lowered(linear):
    from torch._inductor.utils import run_fw_bw_and_get_code

    w = torch.randn(4, 5, requires_grad=True)
    b = torch.randn(4, requires_grad=True)
    x = torch.randn(3, 5)
    f = torch.compile(lambda x, w, b: linear.custom_linear(x, w, b).relu(),
                      fullgraph=True)
    got, code = run_fw_bw_and_get_code(lambda: f(x, w, b))
    call = "= extern_kernels.opgraft_custom_linear_custom_linear_backward"
    assert len(code) == 2 and call in code[1]
    want = torch.relu(x @ w.t() + b)
    torch.testing.assert_close(got, want)
    torch.testing.assert_close(
        torch.autograd.grad(f(x, w, b).sum(), (w, b)),
        torch.autograd.grad(want.sum(), (w, b)))


@pytest.mark.full
def test_cpp_wrapper_calls_no_python(linear, basics):
    w, x = torch.randn(4, 5, requires_grad=True), torch.randn(3, 5)
    f = torch.compile(
        lambda x, w: linear.custom_linear(x, w) + basics.strided_sum(x),
        fullgraph=True, options={"cpp_wrapper": True})
    torch.testing.assert_close(f(x, w), x @ w.t() + x.sum())
    grad, = torch.autograd.grad(f(x, w).sum(), (w,))
    torch.testing.assert_close(grad, x.sum(0).expand(4, 5))


@pytest.mark.full
def test_ahead_of_time_inductor(linear, tmp_path):
    class Model(torch.nn.Module):
        def forward(self, x, w):
            return linear.custom_linear(x, w) + 1

    x, w = torch.randn(3, 5), torch.randn(4, 5)
    dim = torch.export.Dim("n", min=2, max=64)
    program = torch.export.export(Model(), (x, w),
                                  dynamic_shapes=({0: dim}, None))
    path = torch._inductor.aoti_compile_and_package(
        program, package_path=str(tmp_path / "model.pt2"))
    model = torch._inductor.aoti_load_package(path)
    for n in (3, 9):
        x = torch.randn(n, 5)
        torch.testing.assert_close(model(x, w), x @ w.t() + 1)


def test_lowering_takes_optionals_and_layouts(linear):
    def f(x, w, b):
        return linear.custom_linear(x, w, b) + linear.custom_linear(x, w)

    x, w, b = torch.randn(5, 3), torch.randn(4, 5), torch.randn(4)
    got = torch.compile(f, fullgraph=True)(x.t(), w, b)
    torch.testing.assert_close(got, 2 * (x.t() @ w.t()) + b)


def test_after_reset(basics):
    x = torch.ones(2)
    f = torch.compile(lambda t: basics.scale_add(t, t), fullgraph=True,
                      backend="aot_eager")
    for _ in range(2):
        assert f(x).tolist() == [1.5, 1.5]
        torch._dynamo.reset()


EDIT = """
import sys, torch, opgraft
m = opgraft.load(sys.argv[1])
f = torch.compile(lambda x: m.%s(x) + 1, fullgraph=True)
x = torch.ones(2, 3, requires_grad=True)
out = f(x)
out.sum().backward()
print(tuple(out.shape), out.flatten()[0].item(), x.grad.flatten()[0].item())
"""

SOURCE = """
#include <opgraft/op.h>
static og_status run(const og_call *c) {
  const int64_t n = og_numel(c->out[0]);
  for (int64_t i = 0; i < n; ++i)
    og_f32_mut(c->out[0])[i] = og_f32(c->in[0])[i] * FACTOR;
  return OG_OK;
}
static const og_kernel k[] = {{.device = OG_CPU, .run = run}};
static const og_op ops[] = {
    {.schema = "edited(Tensor x) -> Tensor", .shape = "x[A, B] -> " SHAPE,
     .dtype = "x: f32 -> x", .backward = "edited_backward(grad) -> x",
     .kernels = OG_KERNELS(k)},
    {.schema = "edited_backward(Tensor g) -> Tensor",
     .shape = "g[*N] -> [2, 3]", .dtype = "g: f32 -> g",
     .kernels = OG_KERNELS(k)}};
OG_MODULE(edited, ops)
"""


@pytest.mark.full
def test_edited_module_with_warm_caches(write_module):
    """Kernel, then shape rule, then back: the caches stay warm, results right.
    They are this user's own, where the compiler has its headers ready."""
    env = {**os.environ, "TORCHINDUCTOR_FX_GRAPH_CACHE": "1",
           "TORCHINDUCTOR_AUTOGRAD_CACHE": "1"}

    def run(factor, shape):
        path = write_module(SOURCE.replace("FACTOR", factor)
                            .replace("SHAPE", shape), "edited")
        return subprocess.run(
            [sys.executable, "-c", EDIT % "edited", str(path)], env=env,
            capture_output=True, text=True, check=True).stdout.strip()

    assert run("2", '"[A, B]"') == "(2, 3) 3.0 2.0"
    assert run("3", '"[A, B]"') == "(2, 3) 4.0 3.0"
    assert run("3", '"[A * B]"') == "(6,) 4.0 3.0"
    assert run("2", '"[A, B]"') == "(2, 3) 3.0 2.0"


def test_overloads_in_inductor(build):
    """Each overload calls its own kernel: both are one name to a user."""
    import opgraft

    m = opgraft.load(build("tests/ops/reduce.c"))
    x = torch.arange(9.0).reshape(3, 3)
    for f in (m.sum, m.sum_keep):
        torch._dynamo.reset()
        got = torch.compile(f, backend="inductor", fullgraph=True)(x, None)
        assert torch.equal(got, f(x, None)) and got.shape == f(x, None).shape


def test_arguments_by_name_in_inductor(build):
    """Also where Inductor would call the .out form of an operator that is not
    lowered: it gave what came by name twice."""
    import opgraft

    m = opgraft.load(build("tests/ops/pointwise.c"))
    x = torch.tensor([1.0, torch.nan, torch.inf])
    torch._dynamo.reset()
    f = torch.compile(lambda x: m.nan_to_num(x, nan=2.0, posinf=3.0),
                      backend="inductor", fullgraph=True)
    assert f(x).tolist() == [1.0, 2.0, 3.0]
