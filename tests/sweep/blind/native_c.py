# SPDX-License-Identifier: Apache-2.0
"""C functions: by ctypes, by prototype, by cffi."""

from __future__ import annotations

import ctypes
import functools
import sys
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from blind.common import Case, build_c, folder, ints, randn

T = torch.Tensor
CASES: list[Case] = []
f64 = torch.float64

SOURCE = r"""
#include <stdint.h>
#include <stdlib.h>
#include <math.h>

void box_blur(const float *x, int64_t h, int64_t w, int r, float *y) {
  for (int64_t i = 0; i < h; ++i)
    for (int64_t j = 0; j < w; ++j) {
      float sum = 0; int count = 0;
      for (int64_t a = i - r; a <= i + r; ++a)
        for (int64_t b = j - r; b <= j + r; ++b)
          if (a >= 0 && a < h && b >= 0 && b < w) {
            sum += x[a * w + b]; ++count;
          }
      y[i * w + j] = sum / count;
    }
}

void swap_bytes(void *to, const void *from, size_t count) {
  const uint8_t *f = from; uint8_t *t = to;
  for (size_t i = 0; i < count; ++i)
    for (int b = 0; b < 8; ++b) t[i * 8 + b] = f[i * 8 + 7 - b];
}

typedef struct { double feed, back; } Coefs;
typedef struct {
  const double *x; double *y; int64_t dims[2]; Coefs c; int reversed;
} Leaky;
int leaky(const Leaky *p) {
  if (p->c.back >= 1) return 3;
  for (int64_t i = 0; i < p->dims[0]; ++i) {
    double s = 0;
    for (int64_t k = 0; k < p->dims[1]; ++k) {
      int64_t j = i * p->dims[1] + (p->reversed ? p->dims[1] - 1 - k : k);
      s = p->c.feed * p->x[j] + p->c.back * s;
      p->y[j] = s;
    }
  }
  return 0;
}

void insertion_sort(int64_t *v, int64_t n) {
  for (int64_t i = 1; i < n; ++i)
    for (int64_t j = i; j > 0 && v[j] < v[j - 1]; --j) {
      int64_t t = v[j]; v[j] = v[j - 1]; v[j - 1] = t;
    }
}

double dot(const double *a, const double *b, int64_t n) {
  double s = 0;
  for (int64_t i = 0; i < n; ++i) s += a[i] * b[i];
  return s;
}

int64_t adler(int64_t start, const uint8_t *data, int64_t n) {
  int64_t a = start & 0xffff, b = start >> 16;
  for (int64_t i = 0; i < n; ++i) {
    a = (a + data[i]) % 65521; b = (b + a) % 65521;
  }
  return b << 16 | a;
}

double smoothstep(double x, double low, double high) {
  double t = (x - low) / (high - low);
  t = t < 0 ? 0 : t > 1 ? 1 : t;
  return t * t * (3 - 2 * t);
}

void outer_index(int32_t *out, const float *x, const int64_t *shape,
                 int32_t ndim) {
  int64_t n = 1;
  for (int d = 0; d < ndim; ++d) n *= shape[d];
  for (int64_t i = 0; i < n; ++i) {
    int64_t rest = i; int32_t sum = 0;
    for (int d = ndim - 1; d >= 0; --d) {
      sum += (int32_t)(rest % shape[d]); rest /= shape[d];
    }
    out[i] = x[i] > 0 ? sum : -1;
  }
}

void gray(const uint8_t *rgb, uint8_t *out, int64_t pixels) {
  for (int64_t i = 0; i < pixels; ++i)
    out[i] = (uint8_t)((rgb[3 * i] * 77 + rgb[3 * i + 1] * 150
                        + rgb[3 * i + 2] * 29) >> 8);
}

typedef struct {
  const float *points; const float *weight; float *centre; float *spread;
  int64_t n; int64_t d;
} Cloud;
int cloud(Cloud *c) {
  for (int64_t k = 0; k < c->d; ++k) {
    double s = 0, m = 0, v = 0;
    for (int64_t i = 0; i < c->n; ++i) {
      double w = c->weight ? c->weight[i] : 1;
      s += w; m += w * c->points[i * c->d + k];
    }
    m /= s;
    for (int64_t i = 0; i < c->n; ++i) {
      double w = c->weight ? c->weight[i] : 1;
      double e = c->points[i * c->d + k] - m;
      v += w * e * e;
    }
    c->centre[k] = (float)m; c->spread[k] = (float)sqrt(v / s);
  }
  return 0;
}
"""

EDIT = r"""
#include <stdlib.h>
int edit_distance(const int *a, int n, const int *b, int m) {
  int *row = malloc(sizeof(int) * (m + 1));
  for (int j = 0; j <= m; ++j) row[j] = j;
  for (int i = 1; i <= n; ++i) {
    int last = row[0]; row[0] = i;
    for (int j = 1; j <= m; ++j) {
      int best = last + (a[i - 1] != b[j - 1]);
      if (row[j] + 1 < best) best = row[j] + 1;
      if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
      last = row[j]; row[j] = best;
    }
  }
  int best = row[m]; free(row);
  return best;
}
"""

i64 = ctypes.c_int64
fp = ctypes.POINTER(ctypes.c_float)
dp = ctypes.POINTER(ctypes.c_double)


def path() -> str:
    return build_c(SOURCE, "blindkernels")


def at(x: Any, kind: Any) -> Any:
    """A ctypes pointer to what a tensor holds."""
    return ctypes.cast(x.data_ptr(), kind)


class Coefs(ctypes.Structure):
    """Of the leaky integrator."""

    _fields_ = [("feed", ctypes.c_double), ("back", ctypes.c_double)]  # noqa: RUF012


class Leaky(ctypes.Structure):
    """The leaky integrator's arguments."""

    _fields_ = [  # noqa: RUF012
        ("x", dp),
        ("y", dp),
        ("dims", i64 * 2),
        ("c", Coefs),
        ("reversed", ctypes.c_int),
    ]


@functools.cache
def lib() -> Any:
    """The library with the types of its functions."""
    made = ctypes.CDLL(path())
    made.box_blur.argtypes = [fp, i64, i64, ctypes.c_int, fp]
    made.box_blur.restype = None
    made.swap_bytes.argtypes = [ctypes.c_void_p] * 2 + [ctypes.c_size_t]
    made.swap_bytes.restype = None
    made.leaky.argtypes = [ctypes.POINTER(Leaky)]
    made.leaky.restype = ctypes.c_int
    made.insertion_sort.argtypes = [ctypes.POINTER(i64), i64]
    made.insertion_sort.restype = None
    made.dot.argtypes, made.dot.restype = [dp, dp, i64], ctypes.c_double
    made.adler.argtypes = [i64, ctypes.POINTER(ctypes.c_uint8), i64]
    made.adler.restype = i64
    made.smoothstep.argtypes = [ctypes.c_double] * 3
    made.smoothstep.restype = ctypes.c_double
    return made


# 1: ctypes, pointers with a type, the result last
def blur_plain(x: T, r: int) -> T:
    x = x.contiguous()
    y = torch.empty_like(x)
    lib().box_blur(at(x, fp), *x.shape, r, at(y, fp))
    return y


def blur_want(x: T, r: int) -> T:
    return F.avg_pool2d(
        x[None, None], 2 * r + 1, 1, r, count_include_pad=False
    )[0, 0]


CASES.append(
    Case(
        "box_blur",
        "ctypes: POINTER",
        lambda og: og.adopt(
            lib().box_blur,
            shape="x[H, W] -> [H, W]",
            call="x, H, W, r, out",
            name="blind::box_blur",
        ),
        lambda k: (randn(1, *((5, 6), (9, 7))[k]).t(), (1, 2)[k]),
        blur_want,
        blur_plain,
    )
)


# 2: ctypes, void pointers
def swap_plain(x: T) -> T:
    y = torch.empty_like(x)
    lib().swap_bytes(y.data_ptr(), x.data_ptr(), x.numel())
    return y


CASES.append(
    Case(
        "swap_bytes",
        "ctypes: void pointers, i64, empty",
        lambda og: og.adopt(
            lib().swap_bytes,
            shape="x[*N] -> [*N]",
            dtype="x: i64 -> i64",
            call="out, x, x.numel",
            name="blind::swap_bytes",
        ),
        lambda k: (ints(1, 1 << 40, *((3, 4), (0, 2))[k]),),
        lambda x: torch.from_numpy(x.numpy().byteswap()),
        swap_plain,
    )
)


# 3: ctypes, a struct with an array and a struct inside
def leaky_plain(x: T, feed: float, back: float) -> T:
    y = torch.empty_like(x)
    p = Leaky(at(x, dp), at(y, dp), (i64 * 2)(*x.shape), Coefs(feed, back), 0)
    assert lib().leaky(ctypes.byref(p)) == 0
    return y


def leaky_want(x: T, feed: float, back: float) -> T:
    i = torch.arange(x.shape[1])
    w = torch.tril(back ** (i[:, None] - i).clamp(min=0).double())
    return feed * x @ w.t()


CASES.append(
    Case(
        "leaky",
        "ctypes: struct pointer, status, gradient",
        lambda og: og.adopt(
            lib().leaky,
            shape="x[N, L] -> [N, L]",
            returns="status",
            name="blind::leaky",
            call="Leaky(x=x.data, y=out.data, dims=[N, L],"
            " c=Coefs(feed=feed, back=back))",
            backward=lambda grad, x, feed, back: leaky_want(
                grad.flip(1), feed, back
            ).flip(1),
        ),
        lambda k: (randn(1, *((2, 5), (4, 3))[k], dtype=f64), 0.5, 0.8),
        leaky_want,
        leaky_plain,
        grad="auto",
    )
)


# 4: ctypes, in place
def sort_plain(v: T) -> None:
    lib().insertion_sort(at(v, ctypes.POINTER(i64)), v.numel())


def sort_want(v: T) -> None:
    v.copy_(torch.from_numpy(np.sort(v.numpy())))


CASES.append(
    Case(
        "insertion_sort_",
        "ctypes: in place",
        lambda og: og.adopt(
            lib().insertion_sort,
            "insertion_sort_(Tensor(a!) v) -> ()",
            "v[N] ->",
            call="v, v.numel",
            name="blind::insertion_sort_",
        ),
        lambda k: (ints(1, 50, (7, 12)[k]),),
        sort_want,
        sort_plain,
        mutates=True,
    )
)

# 5: ctypes, the number that is returned
CASES.append(
    Case(
        "dot",
        "ctypes: returns the result, gradient",
        lambda og: og.adopt(
            lib().dot,
            shape="a[N], b[N] -> []",
            call="a, b, N",
            returns="out",
            name="blind::dot",
            backward=lambda grad, a, b: (grad * b, grad * a),
        ),
        lambda k: tuple(randn(s, (4, 9)[k], dtype=f64) for s in (1, 2)),
        lambda a, b: (a * b).sum(),
        lambda a, b: lib().dot(at(a, dp), at(b, dp), len(a)),
        grad="auto",
    )
)


# 6: a prototype as text, with a schema for a default
def adler_want(data: T, start: int = 1) -> int:
    import zlib  # noqa: PLC0415

    return zlib.adler32(data.numpy().tobytes(), start)


CASES.append(
    Case(
        "adler",
        "prototype: returns the result, default, u8, empty",
        lambda og: og.adopt(
            "int64_t adler(int64_t start, const uint8_t *data, int64_t n)",
            "adler(Tensor data, int start=1) -> Tensor",
            library=path(),
            call="start, data, data.numel",
            returns="out",
            shape="data[*N] -> []",
            name="blind::adler",
        ),
        lambda k: (
            ints(1, 256, *((3, 50), (0,))[k], dtype=torch.uint8),
            *((), (77,))[k],
        ),
        adler_want,
        lambda d, s=1: lib().adler(
            s, at(d, ctypes.POINTER(ctypes.c_uint8)), d.numel()
        ),
    )
)


# 7: a prototype, by element, with a gradient
def smooth_back(grad: T, x: T, low: float, high: float) -> T:
    t = ((x - low) / (high - low)).clamp(0, 1)
    return grad * 6 * t * (1 - t) / (high - low)


def smooth_want(x: T, low: float, high: float) -> T:
    t = ((x - low) / (high - low)).clamp(0, 1)
    return t * t * (3 - 2 * t)


def smooth_plain(x: T, low: float, high: float) -> T:
    flat = [lib().smoothstep(v, low, high) for v in x.flatten().tolist()]
    return torch.tensor(flat, dtype=f64).reshape(x.shape)


CASES.append(
    Case(
        "smoothstep",
        "prototype: by element, gradient, 0-d, vmap",
        lambda og: og.adopt(
            "double smoothstep(double x, double low, double high)",
            library=path(),
            call="x[i], low, high",
            returns="out[i]",
            shape="x[*N] -> [*N]",
            name="blind::smoothstep",
            backward=smooth_back,
        ),
        lambda k: (randn(1, *((), (3, 4))[k], dtype=f64), -1.0, 2.0),
        smooth_want,
        smooth_plain,
        grad="auto",
        vmap=lambda: ((randn(2, 3, 5, dtype=f64), -1.0, 1.0), (1, None, None)),
    )
)


# 8: a prototype that takes the sizes by pointer
def index_plain(x: T) -> T:
    out = torch.empty(x.shape, dtype=torch.int32)
    sizes = (i64 * x.dim())(*x.shape)
    where = ctypes.c_void_p
    ctypes.CDLL(path()).outer_index(
        where(out.data_ptr()), where(x.data_ptr()), sizes, x.dim()
    )
    return out


def index_want(x: T) -> T:
    total = sum(np.indices(tuple(x.shape)))
    return torch.where(x > 0, torch.from_numpy(total), -1).int()


CASES.append(
    Case(
        "outer_index",
        "prototype: sizes by pointer, i32 result",
        lambda og: og.adopt(
            "void outer_index(int32_t *out, const float *x,"
            " const int64_t *shape, int32_t ndim)",
            library=path(),
            call="out.data, x.data, x.shape, x.ndim",
            shape="x[*N] -> [*N]",
            name="blind::outer_index",
        ),
        lambda k: (randn(1, *((4, 3), (2, 3, 2))[k]),),
        index_want,
        index_plain,
    )
)

CDEF = """
void gray(const uint8_t *rgb, uint8_t *out, int64_t pixels);
typedef struct {
  const float *points; const float *weight; float *centre; float *spread;
  int64_t n; int64_t d;
} Cloud;
int cloud(Cloud *c);
"""


@functools.cache
def opened() -> Any:
    """The library by cffi in ABI mode."""
    import cffi  # noqa: PLC0415

    ffi = cffi.FFI()
    ffi.cdef(CDEF)
    return ffi, ffi.dlopen(path())


# 9: cffi in ABI mode: colours to grey
def gray_plain(rgb: T) -> T:
    ffi, made = opened()
    rgb = rgb.contiguous()
    out = torch.empty(rgb.shape[:-1], dtype=torch.uint8)
    read = ffi.cast("uint8_t *", rgb.data_ptr())
    write = ffi.cast("uint8_t *", out.data_ptr())
    made.gray(read, write, out.numel())
    return out


def gray_want(rgb: T) -> T:
    return ((rgb.long() * torch.tensor([77, 150, 29])).sum(-1) >> 8).byte()


CASES.append(
    Case(
        "gray",
        "cffi: ABI mode, u8, non-contiguous",
        lambda og: og.adopt(
            opened()[1].gray,
            shape="rgb[*N, 3] -> [*N]",
            call="rgb, out, out.numel",
            name="blind::gray",
        ),
        lambda k: (
            (
                ints(1, 256, 3, 4, 5, dtype=torch.uint8).permute(1, 2, 0),
                ints(2, 256, 7, 3, dtype=torch.uint8),
            )[k],
        ),
        gray_want,
        gray_plain,
        needs=("cffi",),
    )
)


# 10: cffi in ABI mode: a struct, an optional tensor, two results
def cloud_plain(points: T, weight: T | None = None) -> tuple[T, T]:
    ffi, made = opened()
    c = ffi.new("Cloud *")
    out = torch.empty(2, points.shape[1])
    c.points = ffi.cast("float *", points.data_ptr())
    if weight is not None:
        c.weight = ffi.cast("float *", weight.data_ptr())
    c.centre = ffi.cast("float *", out[0].data_ptr())
    c.spread = ffi.cast("float *", out[1].data_ptr())
    c.n, c.d = points.shape
    assert made.cloud(c) == 0
    return out[0], out[1]


def cloud_want(points: T, weight: T | None = None) -> tuple[T, T]:
    w = None if weight is None else weight.numpy()
    m = np.average(points.numpy(), axis=0, weights=w)
    v = np.average((points.numpy() - m) ** 2, axis=0, weights=w)
    return torch.from_numpy(m).float(), torch.from_numpy(v**0.5).float()


CASES.append(
    Case(
        "cloud",
        "cffi: struct, optional tensor, two results",
        lambda og: og.adopt(
            opened()[1].cloud,
            "cloud(Tensor points, Tensor? weight=None)"
            " -> (Tensor centre, Tensor spread)",
            "points[N, D], weight?[N] -> [D], [D]",
            returns="status",
            name="blind::cloud",
            call="Cloud(points=points.data, weight=weight.data,"
            " centre=centre.data, spread=spread.data, n=N, d=D)",
        ),
        lambda k: (
            randn(1, *((5, 2), (8, 3))[k]),
            *((), (randn(2, 8).abs() + 0.1,))[k],
        ),
        cloud_want,
        cloud_plain,
        needs=("cffi",),
    )
)


# 11: cffi, compiled: a number out of two arrays
@functools.cache
def compiled() -> Any:
    """A compiled module of cffi."""
    import cffi  # noqa: PLC0415

    made = cffi.FFI()
    made.cdef("int edit_distance(const int *a, int n, const int *b, int m);")
    made.set_source("blind_edit", EDIT)
    made.compile(tmpdir=str(folder()))
    sys.path.insert(0, str(folder()))
    return __import__("blind_edit")


def edit_plain(a: T, b: T) -> int:
    c = compiled()
    one, two = (c.ffi.cast("int *", t.data_ptr()) for t in (a, b))
    return int(c.lib.edit_distance(one, len(a), two, len(b)))


def edit_want(a: T, b: T) -> T:
    from blind.python_a import levenshtein_want  # noqa: PLC0415

    return torch.tensor(levenshtein_want(a, b), dtype=torch.int32)


CASES.append(
    Case(
        "edit_distance",
        "cffi: compiled, returns the result",
        lambda og: og.adopt(
            compiled().lib.edit_distance,
            shape="a[N], b[M] -> []",
            call="a, N, b, M",
            returns="out",
            name="blind::edit_distance",
        ),
        lambda k: tuple(
            ints(s, 3, n, dtype=torch.int32)
            for s, n in zip((1, 2), ((6, 8), (9, 0))[k], strict=True)
        ),
        edit_want,
        edit_plain,
        needs=("cffi",),
    )
)
