# SPDX-License-Identifier: Apache-2.0
"""Python callables as operators: pybind11 functions, builtins, plain Python."""

from __future__ import annotations

import pickle

import pytest
import torch

import opgraft

ROWS = dict(schema="silu_mul(Tensor x, Tensor gate) -> Tensor",
            shape="x[*N], gate[*N] -> [*N]", dtype="x: f32, gate: x -> x")


def reference(x, gate):
    return torch.nn.functional.silu(x) * gate


def silu_mul_backward(grad, x, gate):
    s = torch.sigmoid(x)
    return grad * gate * (s + x * s * (1 - s)), grad * x * s


@pytest.fixture
def silu_mul(opaque):
    return opgraft.adopt(opaque.silu_mul, **ROWS, backward=silu_mul_backward)


def pair(*sizes, grad=False):
    torch.manual_seed(0)
    return [torch.randn(*sizes, requires_grad=grad) for _ in range(2)]


@pytest.mark.parametrize("backend", [
    "eager", "aot_eager", pytest.param("inductor", marks=pytest.mark.full)])
def test_a_full_graph(silu_mul, backend):
    x, gate = pair(4, 6, grad=True)

    def model(x, gate):
        return silu_mul(x * 2, gate).sum(0) + 1

    y = torch.compile(model, fullgraph=True, backend=backend)(x, gate)
    want = reference(x * 2, gate).sum(0) + 1
    torch.testing.assert_close(y, want)
    grads = torch.autograd.grad(y.sum(), (x, gate))
    wants = torch.autograd.grad(want.sum(), (x, gate))
    torch.testing.assert_close(grads, wants)


def test_it_breaks_the_graph_without(opaque):
    x, gate = pair(3)
    compiled = torch.compile(lambda x, g: opaque.silu_mul(x + 1, g) * 2,
                             fullgraph=True, backend="eager")
    with pytest.raises(Exception, match="skipped"):
        compiled(x, gate)


def test_dynamic_shapes_compile_once(silu_mul):
    counter = torch._dynamo.testing.CompileCounter()
    f = torch.compile(lambda x, g: silu_mul(x + 1, g), dynamic=True,
                      fullgraph=True, backend=counter)
    for n in (3, 5, 8):
        x, gate = pair(n, 4)
        torch.testing.assert_close(f(x, gate), reference(x + 1, gate))
    assert counter.frame_count == 1


def test_opcheck_and_forms(silu_mul):
    x, gate = pair(3, 4, grad=True)
    torch.library.opcheck(torch.ops.opaque.silu_mul.default, (x, gate))
    a, b = pair(5)
    out = torch.empty(5)
    assert silu_mul(a, b, out=out) is out
    torch.testing.assert_close(out, reference(a, b))
    batched = torch.func.vmap(silu_mul)(*pair(2, 5))
    torch.testing.assert_close(batched, reference(*pair(2, 5)))
    with torch._subclasses.FakeTensorMode():
        assert silu_mul(torch.empty(7, 2), torch.empty(7, 2)).shape == (7, 2)


def test_strides_are_made_row_major(silu_mul):
    x, gate = pair(4, 6)
    got = silu_mul(x.t(), gate.t())
    assert got.is_contiguous()
    torch.testing.assert_close(got, reference(x, gate).t().contiguous())


def test_without_a_backward_a_gradient_raises(opaque):
    f = opgraft.adopt(opaque.silu_mul, **ROWS, name="plain::silu_mul")
    x, gate = pair(3, grad=True)
    with pytest.raises(RuntimeError, match="has no gradient"):
        f(x, gate).sum().backward()


def test_defaults_keywords_lists_and_optionals(opaque):
    f = opgraft.adopt(
        opaque.scale_add,
        schema="scale_add(Tensor x, float[] factors, Tensor? bias=None, *, "
               'float eps=0.5, str mode="sum") -> Tensor',
        shape="x[*N], bias?[*N] -> [*N]", dtype="x: f32, bias: x -> x")
    x = torch.ones(3)
    whole = torch.compile(
        lambda x: (f(x, [1.0, 2.0]), f(x, [2.0, 3.0], mode="product"),
                   f(x, [1.0], x, eps=0.25)), fullgraph=True,
        backend="aot_eager")
    for got in ((f(x, [1.0, 2.0]), f(x, [2.0, 3.0], mode="product"),
                 f(x, [1.0], x, eps=0.25)), whole(x)):
        assert [t[0].item() for t in got] == [3.5, 6.5, 2.25]


def test_a_mutated_argument(opaque):
    f = opgraft.adopt(
        opaque.decay_, schema="decay_(Tensor(a!) x, float rate=0.5) -> ()",
        shape="x[*N] ->", dtype="x: f32 ->")
    x = torch.ones(4)
    before = x._version
    f(x)
    assert x.tolist() == [0.5] * 4 and x._version > before

    def model(x):
        y = x * 2
        f(y, 0.25)
        return y + x

    torch.testing.assert_close(
        torch.compile(model, fullgraph=True,
                      backend="aot_eager")(torch.ones(4)),
        torch.full((4,), 1.5))
    assert torch.ops.opaque.decay_functional(
        torch.ones(2), 0.5).tolist() == [0.5, 0.5]
    transposed = torch.ones(2, 3).t()
    f(transposed)
    assert transposed.sum().item() == 3


def test_two_results_and_another_shape(opaque):
    both = opgraft.adopt(
        opaque.sum_max,
        schema="sum_max(Tensor x) -> (Tensor sums, Tensor most)",
        shape="x[R, W] -> [R], [R]", dtype="x: f32 -> x, x")
    repeat = opgraft.adopt(
        opaque.repeat_rows,
        schema="repeat_rows(Tensor x, int times) -> Tensor",
        shape="x[R, W] -> [R * times, W]", where="times > 0",
        dtype="x: f32 -> x")
    x = torch.randn(3, 4)

    def model(x):
        sums, most = both(repeat(x, 2))
        return sums + most

    want = (x.sum(1) + x.max(1).values).repeat_interleave(2)
    torch.testing.assert_close(
        torch.compile(model, fullgraph=True, backend="aot_eager")(x), want)
    torch.testing.assert_close(model(x), want)


def test_results_that_the_host_allocates(opaque):
    f = opgraft.adopt(
        opaque.add_into, schema="add(Tensor a, Tensor b) -> Tensor",
        shape="a[*N], b[*N] -> [*N]", dtype="a: f32, b: a -> a",
        call="out, a, b")
    x, y = pair(3, 2)
    torch.testing.assert_close(f(x, y), x + y)
    torch.testing.assert_close(
        torch.compile(lambda x, y: f(x, y) * 2, fullgraph=True,
                      backend="aot_eager")(x, y),
        (x + y) * 2)


def test_a_plain_python_function_and_numpy():
    def cumulative(x, dim):
        return torch.from_numpy(x.numpy().cumsum(dim))

    f = opgraft.adopt(cumulative,
                      schema="cumulative(Tensor x, int dim) -> Tensor",
                      shape="x[*N] -> [*N]", dtype="x: f32|f64 -> x")
    x = torch.randn(3, 4)
    torch.testing.assert_close(f(x, 1), x.cumsum(1))
    torch.testing.assert_close(
        torch.compile(lambda x: f(x, 0) + 1, fullgraph=True,
                      backend="aot_eager")(x),
        x.cumsum(0) + 1)


# --- What goes wrong says so --------------------------------------------------


def adopted(fn, schema="f(Tensor x) -> Tensor", shape="x[*N] -> [*N]", **more):
    return opgraft.adopt(fn, schema=schema, shape=shape, **more)


@pytest.mark.parametrize("fn, text", [
    (lambda x: x[1:], r"is f32\[2\] here, its rules say f32\[3\]"),
    (lambda x: x.double(), r"is f64\[3\] here, its rules say f32\[3\]"),
    (lambda x: 3, r"is f32\[\] here, its rules say f32\[3\]"),
    (lambda x: "3", "is a <class 'str'>, expected a plain CPU tensor"),
])
def test_results_that_are_not_as_declared(fn, text):
    f = adopted(fn)
    with pytest.raises(RuntimeError, match=text):
        f(torch.ones(3))
    with pytest.raises(RuntimeError, match=text):
        torch.ops.test_python.f(torch.ones(3))


def test_a_gradient_that_the_callable_hides():
    weight = torch.ones(3, requires_grad=True)
    f = adopted(lambda x: x * weight)
    with pytest.raises(RuntimeError, match="result 0 requires grad, which"):
        f(torch.ones(3))


def test_a_count_of_results_that_is_not_declared():
    f = adopted(lambda x: (x + 1,), "f(Tensor x) -> (Tensor, Tensor)",
                "x[*N] -> [*N], [*N]")
    with pytest.raises(RuntimeError, match="its schema has 2 results"):
        f(torch.ones(3))


def test_exceptions_of_the_callable_pass(opaque):
    f = adopted(opaque.refuses)
    with pytest.raises(ValueError, match="more than four"):
        f(torch.ones(5))
    with pytest.raises(ValueError, match="more than four"):
        f(torch.ones(2, 4).t())  # by the copy that makes it row-major


@pytest.mark.parametrize("arguments, text", [
    (dict(schema="f(Tensor x -> Tensor", shape="x[*N] -> [*N]"), "f.*schema"),
    (dict(schema="f(Tensor x) -> Tensor", shape="x[*N] -> [*M]"), "M"),
    (dict(schema="f(Tensor x) -> Tensor", shape="x[*N] -> [*N]",
          dtype="x: f33 -> x"), "f33"),
    (dict(schema="f(Tensor x) -> Tensor", shape="x[*N] -> [*N]",
          call="x, y"), "call names 'y'"),
    (dict(schema="f(Tensor x) -> Tensor", shape="x[*N] -> [*N]",
          name="a b::f"), "namespace"),
    (dict(schema="f(Tensor x) -> Tensor"), "shape rule"),
    (dict(schema="f(Tensor x) -> Tensor", shape="x[*N] -> [*N]",
          flags=["pure"]), "flags has 'pure'"),
    (dict(schema="f(Tensor x) -> Tensor", shape="x[*N] -> [*N]",
          backward=3), "backward is 3"),
])
def test_declarations_that_are_wrong(arguments, text):
    with pytest.raises((ValueError, RuntimeError, TypeError), match=text):
        opgraft.adopt(torch.relu, **arguments)


def test_names_are_kept_apart():
    adopted(lambda x: x + 1)

    def other(x):
        return x + 2

    with pytest.raises(ValueError, match="is an operator already"):
        adopted(other)
    second = adopted(other, name="elsewhere::f")
    assert second(torch.zeros(1)).item() == 2
    assert torch.ops.elsewhere.f(torch.zeros(1)).item() == 2


def test_pickles_where_it_is_adopted(silu_mul):
    assert pickle.loads(pickle.dumps(silu_mul)) is silu_mul
    text = pickle.dumps(silu_mul)
    opgraft.unadopt(silu_mul)
    with pytest.raises(RuntimeError, match="was adopted where it was pickled"):
        pickle.loads(text)
    opgraft.adopt(torch.nn.functional.silu, schema="x(Tensor x) -> Tensor",
                  shape="x[*N] -> [*N]", name="opaque::silu_mul")
    with pytest.raises(RuntimeError, match="another one is"):
        pickle.loads(text)
