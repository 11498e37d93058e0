# SPDX-License-Identifier: Apache-2.0
"""Functions of cffi, numba and scipy, by the table of docs/adopt.md."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest
import torch

import opgraft

X = torch.linspace(-1, 2, 7, dtype=torch.float64)


def holds(f: Any, wanted: torch.Tensor) -> None:
    """Called, and compiled."""
    torch.testing.assert_close(f(X), wanted)
    compiled = torch.compile(lambda x: f(x) + 1, backend="opgraft",
                             fullgraph=True)
    torch.testing.assert_close(compiled(X), wanted + 1)


def test_a_function_of_cffi_is_adopted_as_one_of_ctypes() -> None:
    cffi = pytest.importorskip("cffi")
    ffi = cffi.FFI()
    ffi.cdef("double exp(double x);")
    library = ffi.dlopen("libm.so.6")
    address = int(ffi.cast("intptr_t", library.exp))
    fn = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(address)
    holds(opgraft.adopt(fn, name="tools::cffi_exp", shape="x[*N] -> [*N]",
                        call="x[i]", returns="out[i]"), X.exp())


def test_a_cfunc_of_numba_is_adopted_as_a_function_of_ctypes() -> None:
    numba = pytest.importorskip("numba")

    @numba.cfunc("float64(float64)")
    def square(x: float) -> float:
        return x * x

    holds(opgraft.adopt(square.ctypes, name="tools::cfunc_square",
                        shape="x[*N] -> [*N]", call="x[i]", returns="out[i]"),
          X * X)


def test_a_compiled_function_of_numba_takes_arrays() -> None:
    numba = pytest.importorskip("numba")

    @numba.njit
    def twice(x: Any) -> Any:
        return x * 2

    holds(opgraft.adopt(twice, name="tools::njit_twice",
                        schema="njit_twice(Tensor x) -> Tensor",
                        shape="x[N] -> [N]", dtype="x: f64 -> x",
                        call="x.numpy()"), X * 2)


def test_a_low_level_callable_of_scipy_is_adopted_by_its_function() -> None:
    scipy = pytest.importorskip("scipy")
    libm = ctypes.CDLL("libm.so.6")
    libm.cbrt.restype, libm.cbrt.argtypes = ctypes.c_double, [ctypes.c_double]
    held = scipy.LowLevelCallable(libm.cbrt)
    holds(opgraft.adopt(held.function, name="tools::low_level_cbrt",
                        shape="x[*N] -> [*N]", call="x[i]", returns="out[i]"),
          torch.from_numpy(np.cbrt(X.numpy())))
