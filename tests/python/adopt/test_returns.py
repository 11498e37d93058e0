# SPDX-License-Identifier: Apache-2.0
"""What adopted callables may return, and what they are given."""

from __future__ import annotations

import ctypes

import pytest
import torch

import opgraft

PACK = dict(shape="x[*N] -> [*N]", dtype="x: f32 -> x")


@pytest.mark.parametrize("backward, want", [
    (lambda grad: grad, 1.0), (lambda grad: grad.view(-1).view(grad.shape), 1.0),
    (lambda grad: None, 0.0), (lambda grad: grad.numpy() * 3, 3.0)])
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "opgraft"])
def test_a_gradient_may_be_grad_a_view_of_it_none_or_an_array(
        backward, want, backend):
    f = opgraft.adopt(lambda x: x + 1, "g(Tensor x) -> Tensor", **PACK,
                      backward=backward, name="returns::g")
    x = torch.rand(3, 4, requires_grad=True)
    torch.compile(lambda x: f(x) * 1, backend=backend)(x).sum().backward()
    assert x.grad.tolist() == [[want] * 4] * 3


def test_one_tensor_as_two_gradients_is_copied():
    f = opgraft.adopt(
        lambda a, b: a + b, "two(Tensor a, Tensor b) -> Tensor",
        shape="a[*N], b[*N] -> [*N]", dtype="a: f32, b: a -> a",
        backward=lambda grad: (grad * 2,) * 2)
    a, b = torch.rand(3, requires_grad=True), torch.rand(3, requires_grad=True)
    first, second = torch.autograd.grad(f(a, b).sum(), (a, b))
    assert first.tolist() == second.tolist() == [2.0] * 3
    assert first.data_ptr() != second.data_ptr()


def test_a_gradient_of_an_argument_that_the_callable_does_not_take():
    f = opgraft.adopt(
        lambda x, y: x + y.sum(), "sizes(Tensor x, Tensor y) -> Tensor",
        shape="x[*N], y[*M] -> [*N]", dtype="x: f32, y: x -> x",
        backward=lambda grad: (grad, None))
    x, y = torch.rand(3, requires_grad=True), torch.rand(2, requires_grad=True)
    f(x, y).sum().backward()
    assert x.grad.tolist() == [1.0] * 3 and y.grad.tolist() == [0.0] * 2


def test_numpy_arrays_and_numbers_are_results():
    x = torch.tensor([[1.0, 5.0], [2.0, 3.0]])
    doubled = opgraft.adopt(lambda x: x.numpy() * 2, "a(Tensor x) -> Tensor",
                            **PACK, name="returns::a")
    same = opgraft.adopt(lambda x: x.numpy(), "b(Tensor x) -> Tensor", **PACK,
                         name="returns::b")
    both = opgraft.adopt(
        lambda x: (x.numpy().max(), int(x.argmax())),
        "c(Tensor x) -> (Tensor, Tensor)", shape="x[*N] -> [], []",
        dtype="x: f32 -> x, i64", name="returns::c")
    for mode in (lambda f: f,
                 lambda f: torch.compile(f, fullgraph=True, backend="opgraft")):
        assert mode(doubled)(x).tolist() == (x * 2).tolist()
        held = mode(same)(x)
        assert held.tolist() == x.tolist() and held.data_ptr() != x.data_ptr()
        most, at = mode(both)(x)
        assert (most.item(), at.item()) == (5.0, 1)


@pytest.mark.parametrize("value, text", [
    (lambda x: 1.5, r"is f32\[\] here, its rules say i64\[\]"),
    (lambda x: "a", "expected a plain CPU tensor, a numpy array or a number"),
    (lambda x: None, "expected a plain CPU tensor")])
def test_a_result_of_another_kind_is_an_error(value, text):
    f = opgraft.adopt(value, "e(Tensor x) -> Tensor", shape="x[*N] -> []",
                      dtype="x: f32 -> i64", name="returns::e")
    with pytest.raises(RuntimeError, match=text):
        f(torch.rand(3))


def test_ctypes_pointers_are_read_unless_the_schema_says_written(native):
    c = ctypes.CDLL(str(native)).silu_mul
    pointer = ctypes.POINTER(ctypes.c_float)
    c.argtypes, c.restype = [pointer] * 3 + [ctypes.c_int64], None
    f = opgraft.adopt(c, shape="x[*N], gate[*N] -> [*N]",
                      call="out.data, x.data, gate.data, x.numel")
    x, gate = torch.randn(2, 3, 4)
    torch.testing.assert_close(f(x, gate), torch.nn.functional.silu(x) * gate)


def test_a_tvm_ffi_python_callback_gets_tensors_that_it_owns():
    tvm_ffi = pytest.importorskip("tvm_ffi")

    def double(x, out):
        torch.from_dlpack(out).copy_(torch.from_dlpack(x) * 2)

    f = opgraft.adopt(tvm_ffi.convert(double), **PACK,
                      schema="tvm_double(Tensor x) -> Tensor")
    x = torch.randn(3, 4)
    for mode in ("eager", "opgraft"):
        compiled = torch.compile(lambda x: f(x) + 1, backend=mode)
        torch.testing.assert_close(compiled(x), x * 2 + 1)
    for _ in range(100):
        f(x)
