# SPDX-License-Identifier: Apache-2.0
"""What adopted callables may return, and what they are given."""

from __future__ import annotations

import collections
import ctypes
import dataclasses

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


@dataclasses.dataclass
class Pair:
    low: object
    high: object


@pytest.mark.parametrize("kind", [
    lambda low, high: {"low": low, "high": high},
    lambda low, high: {"high": high, "low": low}, Pair,
    lambda low, high: (v for v in (low, high)),
    collections.namedtuple("Two", "low high")])
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "opgraft"])
def test_results_by_name(kind, backend):
    f = opgraft.adopt(lambda x: kind(x.amin(), x.numpy().max()),
                      "ends(Tensor x) -> (Tensor low, Tensor high)",
                      shape="x[*N] -> [], []", dtype="x: f32 -> x, x",
                      name="returns::ends")
    low, high = torch.compile(lambda x: f(x), backend=backend)(
        torch.tensor([1.0, 3.0, 2.0]))
    assert (low.item(), high.item()) == (1, 3)


@pytest.mark.parametrize("value, text", [
    ({"low": 1, "top": 2}, "returned low, top, expected low, high; name"),
    ("ab", "its schema has 2 results, the callable returned <class 'str'>"),
    (torch.ones(2), "its schema has 2 results, the callable returned"),
    ((1.0, 2.0, 3.0), "a sequence of another length")])
def test_results_by_other_names(value, text):
    f = opgraft.adopt(lambda x: value, name="returns::ends",
                      schema="ends(Tensor x) -> (Tensor low, Tensor high)",
                      shape="x[*N] -> [], []", dtype="x: f32 -> x, x")
    with pytest.raises(RuntimeError, match=text):
        f(torch.ones(3))


def test_a_dict_wants_names_in_the_schema():
    f = opgraft.adopt(lambda x: {"low": 1.0, "high": 2.0},
                      "ends(Tensor x) -> (Tensor, Tensor)",
                      shape="x[*N] -> [], []", dtype="x: f32 -> x, x",
                      name="returns::ends")
    with pytest.raises(RuntimeError, match="without a name.*Tensor low, Tensor high"):
        f(torch.ones(3))


@pytest.mark.parametrize("value, want", [
    (lambda x: x, lambda x: x), (lambda x: x.t(), lambda x: x.t()),
    (lambda x: (x * 2,), lambda x: x * 2),
    (lambda x: x.tolist(), lambda x: x),
    (lambda x: x.view(-1).view(3, 3), lambda x: x)])
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "opgraft"])
def test_the_argument_a_view_a_tuple_of_one_and_nested_lists(
        value, want, backend):
    f = opgraft.adopt(value, "v(Tensor x) -> Tensor", name="returns::v",
                      shape="x[N, M] -> [M, N]", dtype="x: f32 -> x")
    x = torch.randn(3, 3)
    y = torch.compile(lambda x: f(x), backend=backend)(x)
    torch.testing.assert_close(y, want(x))
    y.zero_()
    assert x.abs().sum() > 0


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "opgraft"])
@pytest.mark.parametrize("fn", [
    lambda x: x, lambda x: x[:], lambda x: torch.stack(list(x.unbind(0))),
    lambda x: x.t().t(), lambda x: list(x.split(x.shape[0]))[0]])
def test_a_view_of_an_argument_that_requires_grad(fn, backend):
    f = opgraft.adopt(fn, "v(Tensor x) -> Tensor", **PACK, name="returns::v",
                      backward=lambda grad: grad * 2)
    for shape in ((3, 4), (2, 0)):
        x = torch.rand(shape, requires_grad=True)
        y = torch.compile(lambda x: f(x) * 1, backend=backend)(x)
        y.sum().backward()
        assert torch.equal(y, x) and (x.grad == 2).all()


@pytest.mark.parametrize("shape", [
    "x[*N, D] -> [*N, D // 2]", "x[D, E] -> [D * E // 2]",
    "x[*N, D] -> [*N, min(D, D, D) // 2]"])
def test_a_gradient_whose_sizes_do_not_tell_the_argument_s(shape):
    rows = "*N" in shape

    def half(x):
        return x[..., ::2] * 1 if rows else x.flatten()[::2] * 1

    def back(grad):
        grad = torch.stack([grad, grad * 0], -1).flatten(-2)
        return grad if rows else grad.view(4, 6)

    f = opgraft.adopt(half, "half(Tensor x) -> Tensor", shape, "x: f32 -> x",
                      backward=back, name="returns::half")
    x = torch.rand(4, 6, requires_grad=True)
    f(x).sum().backward()
    assert x.grad.flatten().tolist() == [1.0, 0.0] * 12


def test_an_argument_that_is_written_is_an_error_at_the_first_call():
    def liar(x, y, xs):
        (y.numpy() if len(xs) else x).__imul__(2)
        return x

    f = opgraft.adopt(
        liar, "liar(Tensor x, Tensor y, Tensor[] xs) -> Tensor",
        shape="x[*N], y[*N] -> [*N]", dtype="x: f32, y: x, xs: x -> x",
        name="returns::liar")
    x = torch.rand(3)
    with pytest.raises(RuntimeError, match=r"wrote argument y, which the schema "
                                           r"declares as read.*Tensor\(a!\) y"):
        f(x, x.clone(), [x.clone()])


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "opgraft"])
def test_a_callable_may_differentiate_inside(backend):
    def slope(x):
        with torch.enable_grad():
            return torch.autograd.functional.jacobian(
                lambda v: v.sin().sum(), x)

    f = opgraft.adopt(slope, "slope(Tensor x) -> Tensor", **PACK,
                      name="returns::slope")
    x = torch.rand(4)
    torch.testing.assert_close(
        torch.compile(lambda x: f(x), backend=backend)(x), x.cos())
    torch.testing.assert_close(torch.ops.returns.slope(x), x.cos())


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "opgraft"])
def test_a_list_and_a_tensor_are_results(backend):
    f = opgraft.adopt(
        lambda x: (x.unbind(0), x.sum()), "rows(Tensor x) -> (Tensor[], Tensor)",
        shape="x[N, D] -> {i < N: [D]}, []", dtype="x: f32 -> x, x",
        name="returns::rows")
    x = torch.randn(3, 4)
    rows, total = torch.compile(lambda x: f(x), backend=backend)(x)
    torch.testing.assert_close(list(rows), list(x))
    torch.testing.assert_close(total, x.sum())


@pytest.mark.parametrize("fn, text", [
    (lambda a, b, c: a, r"backward takes \(a, b, c\), expected \(grad\), "),
    (lambda: 1, r"backward takes \(\), expected")])
def test_a_gradient_s_arguments_are_told(fn, text):
    with pytest.raises(ValueError, match=text):
        opgraft.adopt(lambda x: x + 1, "g(Tensor x) -> Tensor", **PACK,
                      backward=fn, name="returns::g")


def test_a_gradient_of_one_argument_gets_the_gradient():
    f = opgraft.adopt(lambda x: x * 2, "g(Tensor x) -> Tensor", **PACK,
                      backward=lambda g: g * 2, name="returns::g")
    x = torch.rand(3, requires_grad=True)
    f(x).sum().backward()
    assert x.grad.tolist() == [2.0] * 3


@pytest.mark.parametrize("kind", ["float", "int", "bool", "str"])
def test_a_number_in_the_schema_s_results_says_what_to_write(kind):
    with pytest.raises(ValueError, match="a number is a Tensor of shape"):
        opgraft.adopt(lambda x: 1, f"n(Tensor x) -> {kind}", "x[*N] -> []")
