# SPDX-License-Identifier: Apache-2.0
"""Functions of ctypes, cffi, numba and scipy as they are, structs among what
they take."""

from __future__ import annotations

import ctypes
import gc
import re
import sys
from typing import Any

import numpy as np
import pytest
import torch

import opgraft
from opgraft._adopt import build

F32 = ctypes.POINTER(ctypes.c_float)
X = torch.linspace(-1, 2, 12).reshape(3, 4)
D = X.double()
CDEF = """
typedef struct { int64_t n; float by; } options;
typedef struct { const float *x; float *out; const options *more;
                 int shift[2]; options inner; } params;
int run_params(const params *p);
void run_options(options by_value, const float *x, float *out);
void silu_mul(float *out, const float *x, const float *gate, int64_t n);
double times_data(double x, void *data);
typedef struct hidden hidden;
"""
WHOLE = ("params(x=x.data, out=out.data, more=options(by=k), shift=[1, 2], "
         "inner=options(n=x.numel, by=0.5))")


class options(ctypes.Structure):  # noqa: N801 (as C names it)
    _fields_ = [("n", ctypes.c_int64), ("by", ctypes.c_float)]


class params(ctypes.Structure):  # noqa: N801
    _fields_ = [("x", F32), ("out", ctypes.c_void_p),
                ("more", ctypes.POINTER(options)),
                ("shift", ctypes.c_int * 2), ("inner", options)]


@pytest.fixture
def library(native: Any) -> Any:
    lib = ctypes.CDLL(str(native))
    lib.run_params.argtypes = [ctypes.POINTER(params)]
    lib.run_params.restype = ctypes.c_int
    lib.run_options.argtypes = [options, F32, F32]
    lib.run_options.restype = None
    lib.times_data.argtypes = [ctypes.c_double, ctypes.c_void_p]
    lib.times_data.restype = ctypes.c_double
    return lib


@pytest.fixture
def ffi(native: Any) -> Any:
    made = pytest.importorskip("cffi").FFI()
    made.cdef(CDEF)
    return made, made.dlopen(str(native))


def holds(f: Any, args: tuple[Any, ...], wanted: torch.Tensor) -> None:
    """Called, by torch.ops, and compiled by both backends, at other sizes."""
    torch.testing.assert_close(f(*args), wanted)
    for backend, dynamic in (("aot_eager", None), ("opgraft", True)):
        compiled = torch.compile(lambda *a: f(*a) + 1, backend=backend,
                                 fullgraph=True, dynamic=dynamic)
        torch.testing.assert_close(compiled(*args), wanted + 1)


def test_structs_of_ctypes(library: Any) -> None:
    f = opgraft.adopt(library.run_params, shape="x[*N] -> [*N]", call=WHOLE,
                      dtype="x: f32 -> x", returns="status")
    holds(f, (X, 2.0), X * 2 + 3.5)
    holds(f, (X.t(), 2.0), X.t() * 2 + 3.5)
    plain = opgraft.adopt(
        library.run_params, "plain(Tensor x) -> Tensor", "x[*N] -> [*N]",
        "x: f32 -> x", returns="ignored",
        call="params(x=x, out=out, inner=options(n=x.numel))")
    holds(plain, (X,), X)
    assert opgraft.check(plain, calls=6, torch=False)
    byvalue = opgraft.adopt(library.run_options, shape="x[*N] -> [*N]",
                            call="options(n=x.numel, by=k), x, out")
    holds(byvalue, (X, 3.0), X * 3)


def test_a_struct_s_function_in_place(library: Any) -> None:
    f = opgraft.adopt(
        library.run_params, "scale_(Tensor(a!) x, float k) -> ()",
        shape="x[*N] ->", dtype="x: f32 ->", returns="ignored",
        call="params(x=x, out=x, more=options(by=k), inner=options(n=x.numel))")
    x = X.clone()
    f(x, 2.0)
    torch.testing.assert_close(x, X * 2)


def test_functions_of_cffi(ffi: Any) -> None:
    made, lib = ffi
    silu = opgraft.adopt(lib.silu_mul, shape="x[*N], gate[*N] -> [*N]",
                         call="out, x, gate, x.numel")
    assert silu.__name__ == "silu_mul"
    whole = opgraft.adopt(lib.run_params, shape="x[*N] -> [*N]", call=WHOLE,
                          returns="status")
    byvalue = opgraft.adopt(lib.run_options, shape="x[*N] -> [*N]",
                            call="options(n=x.numel, by=k), x, y")
    del made, lib, ffi
    gc.collect()  # cffi unmaps a library with its lib object
    holds(silu, (X, X), torch.nn.functional.silu(X) * X)
    holds(whole, (X, 2.0), X * 2 + 3.5)
    holds(byvalue, (X, 3.0), X * 3)


def test_a_callback_of_cffi(ffi: Any) -> None:
    square = ffi[0].callback("double(double)")(lambda x: x * x)
    holds(opgraft.adopt(square, shape="x[*N] -> [*N]", call="x[i]",
                        returns="out[i]"), (D,), D * D)


def test_a_compiled_module_of_cffi(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    builder = pytest.importorskip("cffi").FFI()
    builder.cdef("void twice(const float *x, float *y, int n);")
    builder.set_source(
        "opgraft_cffi_api", "static void twice(const float *x, float *y, int n)"
        "{ for (int i = 0; i < n; ++i) y[i] = 2 * x[i]; }")
    builder.compile(tmpdir=str(tmp_path))
    monkeypatch.syspath_prepend(str(tmp_path))
    lib = __import__("opgraft_cffi_api").lib
    holds(opgraft.adopt(lib.twice, shape="x[*N] -> [*N]",
                        call="x, y, x.numel"), (X,), X * 2)
    del sys.modules["opgraft_cffi_api"]


def test_cfuncs_of_numba() -> None:
    numba = pytest.importorskip("numba")
    types = numba.types

    @numba.cfunc("float64(float64)")
    def square(x: float) -> float:
        return x * x

    @numba.cfunc(types.void(types.CPointer(types.float32),
                            types.CPointer(types.float32), types.intp))
    def twice(x: Any, out: Any, n: int) -> None:
        for i in range(n):
            out[i] = x[i] * 2

    f = opgraft.adopt(square, shape="x[*N] -> [*N]", call="x[i]",
                      returns="out[i]")
    assert f.__name__ == "square"
    holds(f, (D,), D * D)
    holds(opgraft.adopt(twice, shape="x[*N] -> [*N]", call="x, out, x.numel"),
          (X,), X * 2)


def test_low_level_callables(library: Any, ffi: Any) -> None:
    low = pytest.importorskip("scipy").LowLevelCallable
    special = pytest.importorskip("scipy.special.cython_special")
    each = dict(shape="x[*N] -> [*N]", returns="out[i]")
    j0 = opgraft.adopt(low.from_cython(special, "j0"), call="x[i], 0",
                       name="low::j0", **each)
    holds(j0, (D,), torch.special.bessel_j0(D))
    three = ctypes.c_double(3)
    data = ctypes.cast(ctypes.pointer(three), ctypes.c_void_p)
    holds(opgraft.adopt(low(library.times_data, data), name="low::three",
                        call="x[i], user_data", **each), (D,), D * 3)
    four = ffi[0].new("double *", 4.0)
    data = ffi[0].cast("void *", four)
    holds(opgraft.adopt(low(ffi[1].times_data, data), name="low::four",
                        call="x[i], user_data", **each), (D,), D * 4)


def test_types_of_ctypes(library: Any) -> None:
    pointer = np.ctypeslib.ndpointer(dtype=np.float32, flags="C_CONTIGUOUS")
    f = library.silu_mul
    f.argtypes, f.restype = [pointer] * 3 + [ctypes.c_longlong], None
    holds(opgraft.adopt(f, shape="x[*N], gate[*N] -> [*N]",
                        call="y, x, gate, x.numel"), (X, X),
          torch.nn.functional.silu(X) * X)


@pytest.mark.parametrize("call, text", [
    ("x", "found 'x', expected the struct's fields by name: params(x=…), of x"),
    ("options(n=1)", "expected the struct's fields by name: params(x=…)"),
    ("params(z=x)", "params has no field 'z', expected some of x, out"),
    ("params(x=x.numel)", "found a number, expected a pointer"),
    ("params(inner=options(n=x.data))", "found a pointer, expected a number"),
    ("params(inner=x)", "expected the struct's fields by name: options(n=…)"),
    ("params(shift=[1, 2, 3])", "expected a list of at most 2"),
    ("params(x=x)", "nothing writes result out"),
])
def test_structs_that_are_not_right(library: Any, call: str, text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(text)):
        opgraft.adopt(library.run_params, "f(Tensor x) -> Tensor",
                      "x[*N] -> [*N]", "x: f32 -> x", call=call,
                      returns="ignored")


def test_what_is_not_told_is_asked_for(library: Any, ffi: Any) -> None:
    made, lib = ffi
    one = dict(shape="x[*N] -> [*N]", call="x, out, x.numel")
    strlen = ctypes.CDLL(None).memcpy
    with pytest.raises(ValueError, match="without argtypes"):
        opgraft.adopt(strlen, **one)
    strlen.argtypes = [ctypes.c_void_p] * 2 + [ctypes.c_size_t]
    strlen.restype = None
    with pytest.raises(ValueError, match="does not say the type of out, x"):
        opgraft.adopt(strlen, **one)
    with pytest.raises(TypeError, match="cffi data of type 'int ?.*expected a"):
        opgraft.adopt(made.new("int *"), **one)
    with pytest.raises(ValueError, match="nothing in call is one"):
        opgraft.adopt(lib.silu_mul, shape="x[*N] -> [*N]",
                      call="x, x, x, x.numel")
    hidden = made.callback("void(hidden *)", lambda h: None)
    with pytest.raises(ValueError, match="has no fields that are known"):
        opgraft.adopt(hidden, **one)
    with pytest.raises(ValueError, match="a function of ctypes or cffi"):
        opgraft.adopt("void f(params *p)", library="libm.so.6",
                      shape="x[*N] -> [*N]", call="x")


@pytest.mark.parametrize("schema, types", [
    ("g(Tensor x) -> (Tensor b, Tensor a)", "x: f32 -> i32, f64"),
    ("g(Tensor x) -> (Tensor(a!) a, Tensor b)", "x: f32 -> f64, i32"),
    ("g(Tensor x) -> (Tensor, Tensor)", None)])
def test_types_of_several_results_follow_their_names(schema, types):
    own = "f(Tensor x) -> (Tensor a, Tensor b)"
    assert build._reordered("x: f32 -> f64, i32", own, schema) == types
