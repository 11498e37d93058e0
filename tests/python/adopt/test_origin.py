# SPDX-License-Identifier: Apache-2.0
"""Two callables of one name are two, however alike Python makes them."""

from __future__ import annotations

import functools
import sys
import types
import warnings

import pytest
import torch

import opgraft


def adopted(fn, **more):
    return opgraft.adopt(fn, "f(Tensor x) -> Tensor", "x[*N] -> [*N]",
                         "x: f32 -> x", name="origin::f", **more)


class Scale:
    def __init__(self, factor):
        self.factor = factor

    def __call__(self, x):
        return x * self.factor

    def method(self, x):
        return x * self.factor


def scaled(x, factor):
    return x * factor


def closure(factor):
    def scale(x):
        return x * factor
    return scale


def defaulted(factor):
    def scale(x, factor=factor):
        return x * factor
    return scale


def keyword(factor):
    def scale(x, *, factor=factor):
        return x * factor
    return scale


def wrapper(factor):
    return functools.wraps(scaled)(lambda x: x * factor)


PAIRS = {
    "lambdas": (lambda x: x * 2, lambda x: x * 3),
    "functors": (Scale(2), Scale(3)),
    "bound methods": (Scale(2).method, Scale(3).method),
    "partials": (functools.partial(scaled, factor=2),
                 functools.partial(scaled, factor=3)),
    "nested partials": (functools.partial(Scale(2)),
                        functools.partial(Scale(3))),
    "closures": (closure(2), closure(3)),
    "closures over tensors": (closure(torch.full((1,), 2.0)),
                              closure(torch.full((1,), 3.0))),
    "defaults": (defaulted(2), defaulted(3)),
    "keyword defaults": (keyword(2), keyword(3)),
    "wrappers": (wrapper(2), wrapper(3)),
    "signed zeros": (lambda x: x * 2 + 0.0 * 1, lambda x: x * 3 + -0.0 * 1),
}


@pytest.mark.parametrize("kind", PAIRS)
def test_a_second_callable_of_one_name_is_an_error_that_names_both(kind):
    first, second = PAIRS[kind]
    f = adopted(first)
    with pytest.raises(ValueError) as error:
        adopted(second)
    text = str(error.value)
    assert "origin::f is an operator already" in text
    assert "another name" in text and "unadopt" in text
    x = torch.ones(3)
    compiled = torch.compile(f, fullgraph=True, backend="eager")
    assert f(x).tolist() == compiled(x).tolist() == [2.0] * 3
    assert torch.ops.origin.f(x).tolist() == [2.0] * 3


def test_the_error_says_where_both_stand():
    adopted(closure(2))
    with pytest.raises(ValueError, match=r"scale \(.*test_origin.py:\d+\), and "
                                         r"this is .*scale \(.*test_origin.py"):
        adopted(closure(3))
    opgraft.unadopt(opgraft._adopt.adopted._live["origin", "f"]._functions["f"])
    adopted(functools.partial(scaled, factor=2))
    with pytest.raises(ValueError, match=r"\(factor=2\), and .*\(factor=3\)"):
        adopted(functools.partial(scaled, factor=3))


@pytest.mark.parametrize("make", [
    lambda: lambda x: x * 2, lambda: closure(2), lambda: defaulted(2),
    lambda: functools.partial(scaled, factor=2), lambda: PAIRS["functors"][0],
    lambda: PAIRS["functors"][0].method])
def test_adopting_the_same_again_replaces(make):
    adopted(make())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        f = adopted(make())
    assert torch.compile(f, fullgraph=True, backend="eager")(
        torch.ones(2)).tolist() == [2.0, 2.0]


def module_of(name, text):
    module = types.ModuleType(name)
    sys.modules[name] = module
    exec(text, vars(module))
    return module


def test_a_redefined_function_replaces_with_a_warning():
    module = module_of("origin_cells", "def f(x):\n    return x * 2")
    old = adopted(module.f)
    exec("def f(x):\n    return x * 3", vars(module))
    with pytest.warns(RuntimeWarning, match="is adopted anew"):
        new = adopted(module.f)
    x = torch.ones(2)
    assert old(x).tolist() == [2.0, 2.0] and new(x).tolist() == [3.0, 3.0]
    del sys.modules["origin_cells"]


def test_another_declaration_of_the_same_callable_warns():
    adopted(scaled_by_two)
    with pytest.warns(RuntimeWarning, match="another declaration"):
        adopted(scaled_by_two, call="x=x")


def scaled_by_two(x):
    return x * 2


def test_a_gradient_may_change_with_its_operator():
    adopted(scaled_by_two, backward=lambda grad: grad * 5)
    with pytest.warns(RuntimeWarning, match="another declaration or code"):
        f = adopted(scaled_by_two, backward=lambda grad: grad * 2)
    x = torch.ones(2, requires_grad=True)
    f(x).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_two_libraries_of_one_name_are_two(native, tmp_path):
    prototype = ("void silu_mul(float *out, const float *x, const float *gate, "
                 "int64_t n)")
    given = dict(call="out.data, x.data, gate.data, x.numel",
                 shape="x[*N], gate[*N] -> [*N]")
    other = tmp_path / native.name
    other.write_bytes(native.read_bytes())
    opgraft.adopt(prototype, library=native, **given)
    with pytest.raises(ValueError, match="is an operator already"):
        opgraft.adopt(prototype, library=other, **given)
    opgraft.adopt(prototype, library=native, **given)


def test_a_name_that_a_gradient_finds_taken_renames_the_operator():
    given = dict(shape="x[*N] -> [*N]", dtype="x: f32 -> x")
    opgraft.adopt(scaled_by_two, "f_backward(Tensor x) -> Tensor",
                  name="taken::f_backward", **given)
    with pytest.raises(ValueError, match=r'taken::f_backward is an operator '
                       r'already.*\(name="taken::f_2"\)'):
        opgraft.adopt(lambda x: x * 3, "f(Tensor x) -> Tensor", name="taken::f",
                      backward=lambda grad: grad * 3, **given)
