# SPDX-License-Identifier: Apache-2.0
"""numba, LowLevelCallable and pybind11."""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import numpy as np
import torch

from blind.common import Case, build_c, build_pybind, ints, randn

T = torch.Tensor
CASES: list[Case] = []
f64 = torch.float64


# 12: numba njit: escape times of complex numbers
@functools.cache
def escape() -> Any:
    """The compiled function."""
    import numba  # noqa: PLC0415

    @numba.njit  # type: ignore[untyped-decorator]
    def escape_time(c: Any, limit: Any) -> Any:
        out = np.zeros(c.shape, np.int64)
        inside = 0
        for i in range(c.shape[0]):
            for j in range(c.shape[1]):
                z = 0j
                while out[i, j] < limit and abs(z) <= 2:
                    z = z * z + c[i, j]
                    out[i, j] += 1
                inside += out[i, j] == limit
        return out, inside

    return escape_time


def escape_want(c: T, limit: int) -> tuple[T, int]:
    z, n = torch.zeros_like(c), torch.zeros(c.shape, dtype=torch.int64)
    for _ in range(limit):
        go = z.abs() <= 2
        z, n = torch.where(go, z * z + c, z), n + go
    return n, int((n == limit).sum())


def escape_plain(c: T, limit: int) -> Any:
    n, inside = escape()(c.numpy(), limit)
    return torch.from_numpy(n), inside


CASES.append(
    Case(
        "escape_time",
        "numba: njit, complex, an array and a number",
        lambda og: og.adopt(
            escape(),
            "escape_time(Tensor c, int limit) -> (Tensor, Tensor)",
            "c[H, W] -> [H, W], []",
            "c: c128 -> i64, i64",
            call="c.numpy(), limit",
            name="blind::escape_time",
        ),
        lambda k: (
            torch.complex(*(randn(s, k + 3, 4, dtype=f64) for s in (1, 2))),
            (9, 15)[k],
        ),
        escape_want,
        escape_plain,
        needs=("numba",),
    )
)


# 13: a numba cfunc: two results of a row by pointers
@functools.cache
def welford() -> Any:
    """The compiled function."""
    import numba  # noqa: PLC0415
    from numba import types  # noqa: PLC0415

    p = types.CPointer(types.float64)

    @numba.cfunc(types.void(p, p, p, types.intp, types.intp))  # type: ignore[untyped-decorator]
    def welford(x: Any, mean: Any, var: Any, rows: Any, n: Any) -> None:
        for r in range(rows):
            m, s = 0.0, 0.0
            for i in range(n):
                d = x[r * n + i] - m
                m += d / (i + 1)
                s += d * (x[r * n + i] - m)
            mean[r] = m
            var[r] = s / n

    return welford


def welford_plain(x: T) -> tuple[T, T]:
    out = torch.empty(2, len(x), dtype=f64)
    dp = ctypes.POINTER(ctypes.c_double)
    p = [ctypes.cast(t.data_ptr(), dp) for t in (x, out[0], out[1])]
    welford().ctypes(*p, *x.shape)
    return out[0], out[1]


CASES.append(
    Case(
        "welford",
        "numba: cfunc, two results by pointer",
        lambda og: og.adopt(
            welford(),
            shape="x[R, N] -> [R], [R]",
            call="x, mean, var, R, N",
            name="blind::welford",
        ),
        lambda k: (randn(1, *((2, 5), (3, 8))[k], dtype=f64),),
        lambda x: (x.mean(1), x.var(1, correction=0)),
        welford_plain,
        needs=("numba",),
    )
)

SOFT = """
#include <math.h>
#include <stdint.h>
double soft_knee(double x, void *data) {
  const double *p = data;
  return x > p[0] ? p[0] + (x - p[0]) / p[1] : x;
}
"""


# 14: a LowLevelCallable with data of its own
@functools.cache
def knee() -> Any:
    """The callable, its data, and the ctypes function."""
    from scipy import LowLevelCallable  # noqa: PLC0415

    f = ctypes.CDLL(build_c(SOFT, "blindsoft")).soft_knee
    f.argtypes = [ctypes.c_double, ctypes.c_void_p]
    f.restype = ctypes.c_double
    data = (ctypes.c_double * 2)(0.25, 4.0)
    held = ctypes.cast(data, ctypes.c_void_p)
    return LowLevelCallable(f, held), data, f


def knee_plain(x: T) -> T:
    _, data, f = knee()
    flat = [f(v, ctypes.addressof(data)) for v in x.flatten().tolist()]
    return torch.tensor(flat, dtype=f64).reshape(x.shape)


CASES.append(
    Case(
        "soft_knee",
        "LowLevelCallable: user_data, by element",
        lambda og: og.adopt(
            knee()[0],
            shape="x[*N] -> [*N]",
            call="x[i], user_data",
            returns="out[i]",
            name="blind::soft_knee",
        ),
        lambda k: (randn(1, *((6,), (2, 3, 2))[k], dtype=f64),),
        lambda x: torch.where(x > 0.25, 0.25 + (x - 0.25) / 4, x),
        knee_plain,
        needs=("scipy",),
    )
)

EXT = r"""
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <cmath>
#include <vector>
namespace py = pybind11;
using Floats = py::array_t<float, py::array::c_style>;

// runs of equal numbers: their values, padded, their lengths, how many
py::tuple run_lengths(py::array_t<int64_t> x) {
  py::ssize_t n = x.size(), count = 0;
  py::array_t<int64_t> value(n), length(n);
  for (py::ssize_t i = 0; i < n; ++i) {
    value.mutable_at(i) = length.mutable_at(i) = 0;
    if (count && value.at(count - 1) == x.at(i))
      ++length.mutable_at(count - 1);
    else {
      value.mutable_at(count) = x.at(i);
      length.mutable_at(count++) = 1;
    }
  }
  return py::make_tuple(value, length, count);
}

struct Curve {
  std::vector<float> knots;
  explicit Curve(std::vector<float> k) : knots(std::move(k)) {}
  // between knots that stand at 0, 1, 2, ...; written to y
  void apply(Floats x, Floats y, float gain) const {
    float *to = y.mutable_data();
    const float *from = x.data();
    float top = (float)(knots.size() - 1);
    for (py::ssize_t i = 0; i < x.size(); ++i) {
      float v = std::fmin(std::fmax(from[i], 0.f), top);
      size_t at = std::min((size_t)v, knots.size() - 2);
      float t = v - (float)at;
      to[i] = gain * (knots[at] * (1 - t) + knots[at + 1] * t);
    }
  }
};

PYBIND11_MODULE(blindext, m) {
  m.def("run_lengths", &run_lengths);
  py::class_<Curve>(m, "Curve")
      .def(py::init([](py::list k) {
        std::vector<float> v;
        for (auto i : k) v.push_back(i.cast<float>());
        return Curve(v);
      }))
      .def("apply", &Curve::apply, py::arg("x").noconvert(),
           py::arg("y").noconvert(), py::arg("gain") = 1.f);
}
"""


def ext() -> Any:
    return build_pybind(EXT, "blindext")


# 15: pybind11: a function that returns arrays and a number
def runs_want(x: T) -> tuple[T, T, int]:
    v, n = torch.unique_consecutive(x, return_counts=True)
    pad = [0] * (len(x) - len(v))
    rest = torch.tensor(pad, dtype=torch.int64)
    return torch.cat([v, rest]), torch.cat([n, rest]), len(v)


def runs_plain(x: T) -> Any:
    v, n, count = ext().run_lengths(x.numpy())
    return torch.from_numpy(v), torch.from_numpy(n), count


CASES.append(
    Case(
        "run_lengths",
        "pybind11: a tuple of arrays and a number",
        lambda og: og.adopt(
            ext().run_lengths,
            "run_lengths(Tensor x)"
            " -> (Tensor value, Tensor length, Tensor count)",
            "x[N] -> [N], [N], []",
            "x: i64 -> i64, i64, i64",
            call="x.numpy()",
        ),
        lambda k: (ints(1, 2, (8, 15)[k]),),
        runs_want,
        runs_plain,
        needs=("pybind11",),
    )
)

KNOTS = [0.0, 0.5, 0.75, 2.0]


# 16: pybind11: a method of an object, which writes its result
def curve_want(x: T, gain: float = 1.0) -> T:
    y = np.interp(x.double().numpy(), np.arange(len(KNOTS)), KNOTS)
    return torch.from_numpy(gain * y).float()


def curve_plain(x: T, gain: float = 1.0) -> T:
    y = torch.empty(x.shape)
    ext().Curve(KNOTS).apply(x.contiguous().numpy(), y.numpy(), gain)
    return y


CASES.append(
    Case(
        "curve",
        "pybind11: method, writes its result, non-contiguous",
        lambda og: og.adopt(
            ext().Curve(KNOTS).apply,
            "curve(Tensor x, *, float gain=1.0) -> Tensor",
            "x[*N] -> [*N]",
            "x: f32 -> x",
            call="x.numpy(), out.numpy(), gain",
            name="blind::curve",
        ),
        lambda k: (
            (randn(1, 4, 5).t() * 3, randn(2, 3, 2, 6)[..., ::2] + 1)[k],
        ),
        curve_want,
        curve_plain,
        kwargs=lambda k: ({}, {"gain": 2.5})[k],
        needs=("pybind11",),
    )
)
