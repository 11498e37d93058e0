# SPDX-License-Identifier: Apache-2.0
"""opgraft.check over adopted operators: what lies is found and named."""

from __future__ import annotations

import json

import pytest
import torch

import opgraft
from opgraft import ops

ONE = dict(schema="f(Tensor x) -> Tensor", shape="x[*N] -> [*N]",
           dtype="x: f32 -> x")
TWO = dict(schema="silu_mul(Tensor x, Tensor gate) -> Tensor",
           shape="x[*N], gate[*N] -> [*N]", dtype="x: f32, gate: x -> x")


def check(f, **more):
    return opgraft.check(f, calls=12, **{"torch": False, **more})


def kinds(report):
    return {(f.kind, f.argument) for f in report.faults}


def right(grad, x, gate):
    s = torch.sigmoid(x)
    return grad * gate * (s + x * s * (1 - s)), grad * x * s


@pytest.mark.parametrize("with_torch", [
    False, pytest.param(True, marks=pytest.mark.full)])
def test_what_is_right_is_called_right(opaque, with_torch):
    f = opgraft.adopt(opaque.silu_mul, **TWO, backward=right)
    report = check(f, torch=with_torch)
    assert report and not report.findings, str(report)
    assert "silu_mul: right" in str(report)
    assert "silu_mul_backward: right" in str(report)
    assert ("in PyTorch" in str(report)) is with_torch


def test_the_liars(opaque):
    mutation = opgraft.adopt(opaque.sneaky_relu, **ONE, name="lies::sneaky")
    state = opgraft.adopt(opaque.counted, **ONE, name="lies::counted")
    found = check(mutation)
    assert not found
    assert kinds(found) == {("undeclared_mutation", "x")}
    assert kinds(check(state)) == {("not_repeatable", "result")}
    first = found.faults[0]
    assert first.operator == "sneaky" and "Tensor(a!)" in first.fix
    assert first.call.startswith("x f32[")
    told = json.loads(found.json())
    assert told["module"] == "lies"
    assert told["findings"][0]["kind"] == "undeclared_mutation"
    assert "undeclared_mutation: x: the kernel wrote" in str(found)


@pytest.mark.parametrize("fn, text", [
    (lambda x: x.reshape(1, -1).clone(), "result 0 is f32"),
    (lambda x: x.double(), "result 0 is f64"),
])
def test_rules_that_the_callable_does_not_keep(fn, text):
    report = check(opgraft.adopt(fn, **ONE))
    assert kinds(report) == {("rule_disagrees", "")}
    assert text in report.faults[0].text


def test_a_gradient_of_the_right_shape(opaque):
    f = opgraft.adopt(opaque.silu_mul, **TWO, name="wrong::silu_mul",
                      backward=lambda grad, x, gate: (grad * 1, grad * 1))
    assert kinds(check(f)) == {("wrong_gradient", "x"),
                               ("wrong_gradient", "gate")}


def test_results_that_are_not_written(native):
    f = opgraft.adopt("void nothing(float *out, const float *x, int64_t n)",
                      library=native, shape="x[*N] -> [*N]",
                      call="out.data, x.data, x.numel")
    assert ("output_not_written", "result") in kinds(check(f))


def test_memory_that_is_not_the_call_s(native):
    f = opgraft.adopt(
        "void silu_mul(float *out, const float *x, const float *gate, "
        "int64_t n)", library=native, shape="x[*N], gate[*N] -> [*N]",
        call="out.data, x.data, gate.data, x.numel + 1")
    found = {f.kind for f in check(f).faults}
    assert found & {"out_of_bounds_read", "out_of_bounds_write"}


def test_tvm_ffi_functions_are_checked(tvm_library):
    import tvm_ffi

    m = tvm_ffi.load_module(str(tvm_library))
    f = opgraft.adopt(
        m.get_function("scale"), dtype="x: f32 -> x", shape="x[*N] -> [*N]",
        schema="scale(Tensor x, float factor) -> Tensor")
    report = check(f)
    assert report, str(report)


def test_a_callable_that_crashes_or_does_not_end():
    import ctypes

    def crashes(x):
        ctypes.string_at(8)

    def spins(x):
        while True:
            pass

    for fn, kind in ((crashes, "crash"), (spins, "timeout")):
        report = check(opgraft.adopt(fn, **ONE, name=f"ends::{kind}"))
        assert {f.kind for f in report.faults} == {kind}, str(report)


@pytest.mark.full
def test_functions_of_modules_and_formulas():
    square = opgraft.define("check_square(Tensor x) -> Tensor", row="x * x")
    report = opgraft.check(square, calls=4)
    assert report and {"check_square"} <= set(report.tried)
    report = opgraft.check(ops.silu_and_mul, calls=2, torch=False)
    assert "silu_and_mul" in report.tried


def test_what_is_not_adopted():
    with pytest.raises(ValueError, match="is not what opgraft.adopt"):
        opgraft.check(torch.relu)


def completed(name, fn, schema, **told):
    """An operator of torch.ops with a kernel only, then what adopt adds."""
    library = torch.library.Library("check_own", "FRAGMENT")
    library.define(name + schema)
    library.impl(name, fn, "CPU")
    op = getattr(torch.ops.check_own, name).default
    return library, opgraft.adopt(op, **told)


def add_(x, by, *, times):
    return x.add_(by, alpha=times)


OF_TORCH = {
    "double": (lambda x: x * 2, "(Tensor x) -> Tensor", dict(
        shape="x[*N] -> [*N]", dtype="x: f32|f64 -> x",
        backward=lambda grad: grad * 2), set()),
    "add_": (add_, "(Tensor(a!) x, Tensor by, *, int times) -> Tensor(a!)",
             dict(shape="x[*N], by[*N] -> ", dtype="x: f32, by: x ->"), set()),
    "two": (lambda x: (x + 1, x.sum(-1)), "(Tensor x) -> (Tensor, Tensor)",
            dict(shape="x[*N, D] -> [*N, D], [*N]", dtype="x: f32 -> x, x",
                 where="D > 0"), set()),
    "short": (lambda x: x[:1] * 2, "(Tensor x) -> Tensor", dict(
        shape="x[N] -> [N]", dtype="x: f32 -> x"), {"rule_disagrees"}),
    "writes": (lambda x: x.mul_(2) + 0, "(Tensor x) -> Tensor", dict(
        shape="x[*N] -> [*N]", dtype="x: f32 -> x"), {"undeclared_mutation"}),
    "slope": (lambda x: x * 2, "(Tensor x) -> Tensor", dict(
        shape="x[*N] -> [*N]", dtype="x: f32|f64 -> x",
        backward=lambda grad: grad * 3), {"wrong_gradient"}),
}


@pytest.mark.parametrize("name", OF_TORCH)
def test_an_operator_of_torch_that_was_completed(name):
    fn, schema, told, faults = OF_TORCH[name]
    library, op = completed(name, fn, schema, **told)
    report = check(op)
    assert {f.kind for f in report.faults} == faults, str(report)
    assert report.module == "check_own" and name in str(report)
    again = check(op)  # leaves nothing behind
    assert {f.kind for f in again.faults} == faults
    opgraft.unadopt(op)
    with pytest.raises(ValueError, match="was not completed by opgraft.adopt"):
        check(op)
    del library


@pytest.mark.full
def test_an_operator_of_torch_through_pytorch():
    fn, schema, told, _ = OF_TORCH["double"]
    library, op = completed("double", fn, schema, **told)
    report = check(op, torch=True)
    assert report and "in PyTorch" in str(report), str(report)
    opgraft.unadopt(op)
    del library
