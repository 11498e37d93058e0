# SPDX-License-Identifier: Apache-2.0
"""C symbols, ctypes functions, PyCapsules and TVM-FFI functions."""

from __future__ import annotations

import ctypes
import gc
import shutil
import zlib

import pytest
import torch
from conftest import build_library  # type: ignore[import-not-found]

import opgraft

SILU = "void silu_mul(float *out, const float *x, const float *gate, int64_t n)"
MAP = dict(call="out.data, x.data, gate.data, x.numel",
           shape="x[*N], gate[*N] -> [*N]")


def reference(x, gate):
    return torch.nn.functional.silu(x) * gate


def pair(*sizes):
    torch.manual_seed(0)
    return torch.randn(*sizes), torch.randn(*sizes)


def full(f, *args):
    return torch.compile(f, fullgraph=True, backend="aot_eager")(*args)


def test_a_symbol_by_prototype(native):
    f = opgraft.adopt(SILU, library=native, **MAP)
    x, gate = pair(3, 5)
    torch.testing.assert_close(f(x, gate), reference(x, gate))
    out = torch.empty(3, 5)
    assert f(x, gate, out=out) is out
    torch.testing.assert_close(out, reference(x, gate))
    torch.testing.assert_close(full(lambda x, g: f(x + 1, g) * 2, x, gate),
                               reference(x + 1, gate) * 2)
    torch.testing.assert_close(f(x.t(), gate.t()), reference(x, gate).t())
    torch.library.opcheck(torch.ops.libnative.silu_mul.default, (x, gate))
    assert "silu_mul(Tensor x, Tensor gate) -> Tensor" in f.__doc__
    with pytest.raises(RuntimeError, match="x.*f32"):
        f(x.double(), gate.double())


def test_a_symbol_in_the_graph_engine(native):
    f = opgraft.adopt(SILU, library=native, **MAP)
    x, gate = pair(4, 4)
    model = torch.compile(lambda x, g: f(f(x, g) + 1, g), backend="opgraft",
                          fullgraph=True)
    for _ in range(3):
        torch.testing.assert_close(
            model(x, gate), reference(reference(x, gate) + 1, gate))


def replayed(f, dynamic=False):
    return torch.compile(f, backend="opgraft", fullgraph=True, dynamic=dynamic)


def test_a_plan_s_numbers_are_its_own(native):
    f = opgraft.adopt(SILU, library=native, **MAP)
    model = replayed(lambda x, g: f(f(x, g) + 1, g), dynamic=True)
    for size in (3, 5, 3, 0, 7, 5, 3):
        x, gate = torch.randn(2, size, 2)  # memory of its own each time
        torch.testing.assert_close(
            model(x, gate), reference(reference(x, gate) + 1, gate))
    stats = opgraft.stats(model)
    assert stats.fallbacks == [] and stats.in_python == []


def test_a_plan_says_what_a_function_said(native):
    f = opgraft.adopt(
        "int row_sums(double *out, const float *x, int rows, int width)",
        library=native, shape="x[R, W] -> [R]", returns="status",
        call="out.data, x.data, R, W")
    model = replayed(lambda x: f(x) + 1, dynamic=True)
    x = torch.randn(3, 4)
    torch.testing.assert_close(model(x), x.double().sum(1) + 1)
    with pytest.raises(RuntimeError, match=r"row_sums.*test_native.py:\d+.*: "
                       "row_sums: the C function returned 7, expected 0"):
        model(torch.empty(3, 0))
    torch.testing.assert_close(model(x), x.double().sum(1) + 1)


def test_a_plan_s_numbers_are_held_against_their_types(native):
    nine = opgraft.adopt(
        "void nine(float *out, int8_t a, int16_t b, int32_t c, int64_t d, "
        "uint8_t e, uint16_t f, float g, uint32_t h, double i)",
        library=native, shape="x[N] -> [1]", dtype="x: f32 -> f32",
        schema="nine(Tensor x, float g) -> Tensor",
        call="out.data, x.numel, 1, 2, N, 3, 4, g, 5, 0.5")
    model = replayed(lambda x: nine(x, 2.0) + nine(x + 1, 3.0), dynamic=True)
    for size in (5, 100, 5):
        assert model(torch.empty(size)).item() == 4 * size + 36
    with pytest.raises(RuntimeError, match="argument 2 of its call does not "
                                           "fit its C type"):
        model(torch.empty(200))
    softsign = opgraft.adopt(
        "float softsign(float x, double scale)", library=native,
        shape="x[*N] -> [*N]", call="x[i], scale", returns="out[i]")
    x = torch.randn(2, 3)
    torch.testing.assert_close(replayed(lambda x: softsign(x + 0, 2.0))(x),
                               torch.nn.functional.softsign(x) * 2)


def test_what_a_function_returns_must_fit(native):
    rules = dict(library=native, shape="x[*N] -> []", call="x.data, x.numel",
                 returns="out")
    prototype = "uint32_t add_bytes(const uint8_t *data, size_t size)"
    x = torch.full((3,), 100, dtype=torch.uint8)
    small = opgraft.adopt(prototype, dtype="x: u8 -> u8", name="small::add",
                          **rules)
    assert small(x[:2]).item() == 200
    model = replayed(lambda x: small(x) + 0, dynamic=True)
    assert model(x[:2]).item() == 200
    text = "add: what the C function returned does not fit"
    for call in (small, model):
        with pytest.raises(RuntimeError, match=text):
            call(x)
    real = opgraft.adopt(prototype, dtype="x: u8 -> f32", name="real::add",
                         **rules)
    for call in (real, replayed(lambda x: real(x) + 0)):
        with pytest.raises(RuntimeError, match="outside the result's type"):
            call(x)


def test_a_status_and_a_type_of_its_own(native):
    f = opgraft.adopt(
        "int row_sums(double *out, const float *x, int rows, int width)",
        library=native, shape="x[R, W] -> [R]", returns="status",
        call="out.data, x.data, R, W")
    x = torch.randn(3, 4)
    torch.testing.assert_close(f(x), x.double().sum(1))
    with pytest.raises(RuntimeError,
                       match="row_sums: the C function returned 7"):
        f(torch.empty(3, 0))


def test_a_mutated_argument(native):
    f = opgraft.adopt(
        "void scale_(float *x, double factor, size_t count)", library=native,
        shape="x[*N] ->", call="x.data, factor, x.numel",
        schema="scale_(Tensor(a!) x, float factor=3.0) -> ()",
        dtype="x: f32 ->")
    x = torch.ones(4)
    f(x)
    assert x.tolist() == [3.0] * 4

    def model(x):
        y = x + 1
        f(y, 2.0)
        return y * x

    torch.testing.assert_close(full(model, torch.ones(2)),
                               torch.full((2,), 4.0))


def test_more_arguments_than_registers(native):
    f = opgraft.adopt(
        "void nine(float *out, int8_t a, int16_t b, int32_t c, int64_t d, "
        "uint8_t e, uint16_t f, float g, uint32_t h, double i)",
        library=native, shape="x[N] -> [1]", dtype="x: f32 -> f32",
        schema="nine(Tensor x, int a, float g) -> Tensor",
        call="out.data, a, -300, -70000, 2 * N + x.size(0), 200, 60000, g, "
             "4000000000, 0.5")
    x = torch.empty(5)
    want = -7 - 300 - 70000 + 15 + 200 + 60000 + 2.25 + 4000000000 + 0.5
    assert f(x, -7, 2.25).item() == torch.tensor(want).item()
    with pytest.raises(RuntimeError,
                       match="argument 2 of its call does not fit"):
        f(x, 128, 0.0)


def test_without_libffi_ctypes_calls_it(native, monkeypatch):
    from opgraft._adopt import c_functions

    monkeypatch.setattr(c_functions, "HAS_FFI", False)
    with pytest.warns(RuntimeWarning, match="no libffi: ctypes calls it"):
        f = opgraft.adopt(
            "void nine(float *out, int8_t a, int16_t b, int32_t c, int64_t d, "
            "uint8_t e, uint16_t f, float g, uint32_t h, double i)",
            library=native, shape="x[N] -> [1]", dtype="x: f32 -> f32",
            schema="nine(Tensor x, int a, float g) -> Tensor",
            call="out.data, a, 1, 2, 2 * N + x.size(0), 3, 4, g, 5, 0.5",
            name="fallback::nine")
    # a + 1 + 2 + (2 * 5 + 5) + 3 + 4 + g + 5 + 0.5
    assert f(torch.empty(5), -7, 2.25).item() == 25.75
    assert full(lambda x: f(x + 1, 3, 0.5), torch.empty(5)).item() == f(
        torch.empty(5), 3, 0.5).item()
    with pytest.raises(OverflowError, match="argument 2 of its call"):
        f(torch.empty(5), 128, 0.0)


def test_every_element(native):
    f = opgraft.adopt("float softsign(float x, double scale)", library=native,
                      shape="x[*N] -> [*N]", call="x[i], scale",
                      returns="out[i]")
    x = torch.randn(300, 100)
    torch.testing.assert_close(f(x, 2.0),
                               torch.nn.functional.softsign(x) * 2)
    assert f(torch.empty(0), 1.0).shape == (0,)


def test_libm_and_zlib():
    erf = opgraft.adopt("double erf(double x)", library="libm.so.6",
                        shape="x[*N] -> [*N]", call="x[i]", returns="out[i]")
    x = torch.randn(7, dtype=torch.float64)
    torch.testing.assert_close(erf(x), torch.erf(x))
    crc = opgraft.adopt(
        "unsigned long crc32(unsigned long crc, const unsigned char *data, "
        "unsigned int size)", library="libz.so.1", shape="x[*N] -> []",
        call="0, x.data, x.numel", returns="out", dtype="x: u8 -> i64")
    data = torch.arange(200, dtype=torch.uint8)
    assert crc(data).item() == zlib.crc32(bytes(range(200)))
    assert full(lambda d: crc(d) + 1, data).item() == zlib.crc32(
        bytes(range(200))) + 1


def test_ctypes_and_capsules(native):
    library = ctypes.CDLL(str(native))
    fn = library.add_bytes
    fn.restype = ctypes.c_uint32
    fn.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    f = opgraft.adopt(fn, schema="add_bytes(Tensor x) -> Tensor",
                      shape="x[*N] -> []", dtype="x: u8 -> i32",
                      call="x.data, x.numel", returns="out")
    assert f(torch.full((3,), 5, dtype=torch.uint8)).item() == 15
    kind = ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_float)
    g = opgraft.adopt(kind(lambda v: v * 3), shape="x[*N] -> [*N]",
                      call="x[i]", returns="out[i]")
    assert full(g, torch.ones(2)).tolist() == [3.0, 3.0]
    with pytest.raises(ValueError, match="erf: a ctypes function without "
                                         "argtypes"):
        opgraft.adopt(ctypes.CDLL("libm.so.6").erf, shape="x[*N] -> [*N]")
    new = ctypes.pythonapi.PyCapsule_New
    new.restype = ctypes.py_object
    new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    address = ctypes.cast(library.silu_mul, ctypes.c_void_p).value
    capsule = new(address, b"kernels.silu_mul", None)
    g = opgraft.adopt(capsule, prototype=SILU, name="capsules::silu_mul", **MAP)
    x, gate = pair(6)
    torch.testing.assert_close(full(g, x, gate), reference(x, gate))


def test_tvm_ffi_functions(tvm_library):
    import tvm_ffi

    m = tvm_ffi.load_module(str(tvm_library))
    scale = opgraft.adopt(
        m.get_function("scale"), dtype="x: f32 -> x", shape="x[*N] -> [*N]",
        schema="scale(Tensor x, float factor) -> Tensor")
    count = opgraft.adopt(
        m.get_function("count"), schema="count(Tensor x) -> Tensor",
        shape="x[*N] -> []", dtype="x: f32 -> i64", call="x.dl")
    x = torch.randn(3, 4)
    torch.testing.assert_close(scale(x, 2.0), x * 2)
    torch.testing.assert_close(full(lambda x: scale(x + 1, 0.5) + count(x), x),
                               (x + 1) * 0.5 + 3)
    with pytest.raises(RuntimeError,
                       match="scale: the TVM-FFI function raised ValueError: "
                             "factor is negative"):
        scale(x, -1.0)
    model = replayed(lambda x: scale(scale(x, 2.0), 3.0) + count(x), True)
    for size in (3, 6, 3):
        x = torch.randn(size, 4)
        torch.testing.assert_close(model(x), x * 6 + size)
    wrong = replayed(lambda x: scale(x, -1.0))
    with pytest.raises(RuntimeError,
                       match=r"scale.*test_native.py:\d+.*: scale: the TVM-FFI "
                             "function raised ValueError: factor is negative"):
        wrong(x)


@pytest.mark.parametrize(("kind", "text"), [
    (0, "the tensor that it returned is on another device"),
    (1, "the tensor that it returned has another shape or type")])
def test_a_tvm_ffi_result_that_cannot_be_copied(tvm_library, kind, text):
    import tvm_ffi

    found = opgraft.adopt(
        tvm_ffi.load_module(str(tvm_library)).get_function("elsewhere"),
        schema="elsewhere(Tensor x, int kind) -> Tensor", call="x, kind",
        shape="x[1] -> [1]", dtype="x: f32 -> x")
    with pytest.raises(RuntimeError, match=text):
        found(torch.ones(1), kind)


# --- Prototypes and libraries that are wrong --------------------------------------


@pytest.mark.parametrize("prototype, more, text", [
    ("void missing(float *out)", {}, "exports no missing"),
    ("void silu_mul(float out", {}, "is not a C prototype"),
    ("void silu_mul(uLong n)", {}, "has the type 'uLong'"),
    ("void silu_mul(void (*f)(int))", {}, "functions and variable"),
    ("char *silu_mul(int n)", {}, "returns a pointer"),
    (SILU, dict(call="out.data, x.data, x.numel"), "3 arguments.*takes 4"),
    (SILU, dict(call="out.data, x.data, gate.data, x.data"),
     "found a pointer, expected a number"),
    (SILU, dict(call="out.data, x.numel, gate.data, 1"),
     "found a number, expected a pointer"),
    (SILU, dict(dtype="x: f64, gate: x -> x"), "may be f64, expected f32"),
    (SILU, dict(call="out.data, x.data, gate.data, x.columns"),
     "asks x for its columns"),
    (SILU, dict(schema="f(Tensor x, Tensor gate) -> Tensor",
                dtype="x: f32, gate: x -> x",
                call="x.data, x.data, gate.data, 1"),
     "not const.*nobody writes it"),
    ("int row_sums(double *out, const float *x, int r, int w)",
     dict(call="out.data, x.data, 1, 1", shape="x[R] -> [R]"), "returns a number; say what it is"),
    (SILU, dict(returns="out"), "returns nothing"),
    (SILU, dict(shape=None), r'silu_mul: expected a shape rule, e.g. shape="x'),
    ("float softsign(float x, double scale)",
     dict(call=None, shape="x[*N] -> [*N]", returns="out[i]"),
     r"'x' for 'float x': found a tensor, expected a number: x\[i\]"),
    (SILU, dict(call="out, x, y, x.numel", shape="x[*N] -> [*N]"),
     r"call writes out, y, and the shape rule has 1 result \(\[\*N\]\)"),
])
def test_wrong_prototypes(native, prototype, more, text):
    arguments = {**MAP, **more}
    with pytest.raises((ValueError, AttributeError), match=text):
        opgraft.adopt(prototype, library=native, **arguments)


def test_a_library_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such library"):
        opgraft.adopt(SILU, library=tmp_path / "libno.so", **MAP)
    with pytest.raises(OSError, match="libnowhere.so"):
        opgraft.adopt(SILU, library="libnowhere.so", **MAP)


def test_a_library_of_this_folder_needs_its_path(native, monkeypatch):
    monkeypatch.chdir(native.parent)
    with pytest.raises(OSError, match=f'library="./{native.name}"'):
        opgraft.adopt(SILU, library=native.name, **MAP)


def test_texts_are_strings():
    with pytest.raises(TypeError, match="dtype is a dtype, expected a string"):
        opgraft.adopt(torch.neg, "f(Tensor x) -> Tensor", "x[*N] -> [*N]",
                      torch.float32, name="texts::f")


def test_a_library_lives_as_long_as_its_operators(native, tmp_path):
    path = tmp_path / "libown.so"
    shutil.copy(native, path)

    def is_mapped():
        with open("/proc/self/maps") as maps:
            return any(str(path) in line for line in maps)

    f = opgraft.adopt(SILU, library=path, **MAP)
    x, gate = pair(4)
    opgraft.unadopt(f)
    torch.testing.assert_close(f(x, gate), reference(x, gate))
    assert is_mapped()
    del f
    gc.collect()
    assert not is_mapped()


def test_a_changed_library(native, tmp_path):
    path = tmp_path / "libown.so"
    shutil.copy(native, path)
    f = opgraft.adopt(SILU, library=path, **MAP)
    part = build_library(tmp_path / "part.so", "-Dnothing=something")
    part.replace(path)
    with pytest.raises(RuntimeError, match="changed since it was loaded"):
        opgraft.adopt(SILU, library=path, name="again::silu_mul", **MAP)
    opgraft.unadopt(f)
    del f
    gc.collect()
    with pytest.raises(AttributeError, match="exports no nothing"):
        opgraft.adopt("void nothing(float *out, const float *x, int64_t n)",
                      library=path, shape="x[*N] -> [*N]",
                      call="out.data, x.data, x.numel")


def test_an_operator_of_torch_goes_from_break_to_one_graph():
    library = torch.library.Library("adopt_break", "DEF")
    library.define("mul2(Tensor x) -> Tensor")
    library.impl("mul2", lambda x: torch.from_numpy(x.numpy() * 2), "CPU")
    mul2 = torch.ops.adopt_break.mul2
    for _ in range(2):  # and again, once it was taken back
        torch._dynamo.reset()
        with pytest.raises(Exception, match="fake tensors"):
            full(lambda x: mul2(x + 1), torch.ones(3))
        torch._dynamo.reset()
        opgraft.adopt(mul2, shape="x[*N] -> [*N]", dtype="x: f32 -> x",
                      backward=lambda grad: grad * 2)
        x = torch.ones(3, requires_grad=True)
        full(lambda x: mul2(x + 1), x).sum().backward()
        assert x.grad.tolist() == [2.0] * 3
        opgraft.unadopt(mul2)
    library._destroy()


def test_mutating_operator_of_torch_without_a_gradient_raises():
    library = torch.library.Library("adopt_writes", "DEF")
    library.define("add_(Tensor(a!) x, Tensor y) -> ()")
    library.impl("add_", lambda x, y: x.add_(y.detach()) and None,
                 "CPU")
    add_ = torch.ops.adopt_writes.add_
    rules = {"shape": "x[N], y[N] ->", "dtype": "x: f32, y: x ->"}
    x, y = torch.ones(1), torch.ones(1, requires_grad=True)
    opgraft.adopt(add_, **rules)
    for call in (add_, torch.compile(add_, backend="opgraft")):
        with pytest.raises(Exception, match="y requires grad, and the oper"):
            call(x, y)
    with pytest.raises(RuntimeError, match="add_: has no gradient"):
        torch.ops.adopt_writes.add_functional(x, y).backward()
    opgraft.unadopt(add_)
    opgraft.adopt(add_, **rules, backward="none")
    add_(x, y)
    assert x.item() == 2 and not x.requires_grad
    opgraft.unadopt(add_)
    library._destroy()


def test_operators_of_torch_are_completed():
    library = torch.library.Library("adopt_test", "DEF")
    library.define("mul2(Tensor x) -> Tensor")
    library.define("fill_(Tensor(a!) x, float value) -> ()")
    library.impl("mul2", lambda x: torch.from_numpy(x.numpy() * 2), "CPU")
    library.impl("fill_", lambda x, value: x.numpy().fill(value), "CPU")
    mul2 = opgraft.adopt(torch.ops.adopt_test.mul2, shape="x[*N] -> [*N]",
                         dtype="x: f32 -> x", backward=lambda grad: grad * 2)
    opgraft.adopt(torch.ops.adopt_test.fill_, shape="x[*N] ->",
                  dtype="x: f32 ->")
    x = torch.randn(3, requires_grad=True)
    y = full(lambda x: mul2(x + 1), x)
    y.sum().backward()
    torch.testing.assert_close(x.grad, torch.full((3,), 2.0))
    torch.library.opcheck(mul2, (torch.randn(4, requires_grad=True),))
    assert torch.ops.adopt_test.fill_functional(
        torch.ones(2), 5.0).tolist() == [5.0, 5.0]

    def model(x):
        y = x * 1
        torch.ops.adopt_test.fill_(y, 4.0)
        return y

    assert full(model, torch.ones(2)).tolist() == [4.0, 4.0]
    opgraft.unadopt(torch.ops.adopt_test.mul2)
    opgraft.unadopt(torch.ops.adopt_test.fill_)
    library._destroy()
