# SPDX-License-Identifier: Apache-2.0
"""An adopted function, its library and its operator live and die together."""

from __future__ import annotations

import gc
import shutil
import weakref

import pytest
import torch

import opgraft

RULES = dict(schema="f(Tensor x) -> Tensor", shape="x[*N] -> [*N]",
             dtype="x: f32 -> x", name="life::f")


class Twice:
    def __call__(self, x):
        return x * 2


def collected(reference):
    torch._dynamo.reset()
    gc.collect()
    return reference() is None


def test_a_callable_goes_with_its_operator():
    fn = Twice()
    seen = weakref.ref(fn)
    f = opgraft.adopt(fn, **RULES)
    del fn
    assert f(torch.ones(2)).tolist() == [2.0, 2.0]
    assert seen() is not None
    opgraft.unadopt(f)
    assert f(torch.ones(2)).tolist() == [2.0, 2.0]  # where it is held
    del f
    assert collected(seen)


@pytest.mark.parametrize("backend", ["aot_eager", "opgraft"])
def test_a_compiled_graph_keeps_what_it_calls(backend):
    fn = Twice()
    seen = weakref.ref(fn)
    f = opgraft.adopt(fn, **RULES)
    compiled = torch.compile(lambda x, f=f: f(x) + 1, backend=backend,
                             fullgraph=True)
    assert compiled(torch.ones(2)).tolist() == [3.0, 3.0]
    del fn
    gc.collect()
    assert seen() is not None
    assert compiled(torch.ones(2)).tolist() == [3.0, 3.0]
    opgraft.unadopt(f)
    del f, compiled
    assert collected(seen)


def test_a_plan_keeps_the_library(native, tmp_path):
    path = tmp_path / "libown.so"
    shutil.copy(native, path)

    def is_mapped():
        with open("/proc/self/maps") as maps:
            return any(str(path) in line for line in maps)

    f = opgraft.adopt(
        "void silu_mul(float *out, const float *x, const float *gate, "
        "int64_t n)", library=path, shape="x[*N], gate[*N] -> [*N]",
        call="out.data, x.data, gate.data, x.numel", name="life::silu_mul")
    model = torch.compile(lambda x, g, f=f: f(x, g) + 1, backend="opgraft",
                          fullgraph=True)
    x, gate = torch.randn(2, 4)
    want = torch.nn.functional.silu(x) * gate + 1
    torch.testing.assert_close(model(x, gate), want)
    del f
    gc.collect()
    torch.testing.assert_close(model(x, gate), want)
    assert is_mapped()
    opgraft.unadopt(opgraft._adopt.adopted._live["life", "silu_mul"]._functions[
        "silu_mul"])
    del model
    torch._dynamo.reset()
    gc.collect()
    assert not is_mapped()


def test_a_gradient_s_callable_goes_too():
    fn, back = Twice(), Twice()
    seen = [weakref.ref(fn), weakref.ref(back)]
    f = opgraft.adopt(fn, **RULES, backward=(back, "(grad) -> x"))
    del fn, back
    x = torch.ones(3, requires_grad=True)
    y = f(x).sum()
    opgraft.unadopt(f)
    del f
    y.backward()  # what autograd holds still works
    assert x.grad.tolist() == [2.0] * 3
    del y
    assert all(collected(s) for s in seen)


def test_devices_and_types_are_refused_with_a_sentence():
    f = opgraft.adopt(Twice(), **RULES)
    with pytest.raises(RuntimeError, match="x is f64, expected f32|x.*f32"):
        f(torch.ones(2, dtype=torch.float64))
    meta = f(torch.ones(2, device="meta"))
    assert meta.device.type == "meta" and meta.shape == (2,)
