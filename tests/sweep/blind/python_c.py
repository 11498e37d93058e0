# SPDX-License-Identifier: Apache-2.0
"""Python callables, the third part: lists, in place, types, others."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from blind.common import Case, ints, rand, randn

T = torch.Tensor
CASES: list[Case] = []
f64 = torch.float64


# 23: a weighted merge: gradients of a list and of a tensor
def merge(xs: list[T], w: T) -> T:
    p = w.softmax(0)
    out = torch.zeros_like(xs[0])
    for x, c in zip(xs, p, strict=True):
        out += c * x
    return out


def merge_back(grad: T, xs: list[T], w: T) -> Any:
    p = w.softmax(0)
    dots = torch.stack([(grad * x).sum() for x in xs])
    return [grad * c for c in p], p * (dots - (p * dots).sum())


CASES.append(
    Case(
        "merge",
        "list argument: gradient of it and of a tensor",
        lambda og: og.adopt(
            merge,
            "merge(Tensor[] xs, Tensor w) -> Tensor",
            "xs[][*N], w[len(xs)] -> [*N]",
            "xs: f32|f64, w: xs -> xs",
            backward=merge_back,
        ),
        lambda k: (
            [randn(s, *((2, 3), (5,))[k]) for s in range((3, 2)[k])],
            randn(9, (3, 2)[k]),
        ),
        lambda xs, w: torch.einsum(
            "k,k...->...", w.softmax(0), torch.stack(xs)
        ),
        merge,
        grad="auto",
    )
)


# 24: padded to ragged: a list result, with its gradient
def unpad(x: T, lengths: list[int]) -> list[T]:
    return [r[:n] for r, n in zip(x, lengths, strict=True)]


def unpad_back(grad: list[T], x: T, lengths: list[int]) -> T:
    out = torch.zeros_like(x)
    for i, g in enumerate(grad):
        out[i, : lengths[i]] = g
    return out


CASES.append(
    Case(
        "unpad",
        "list result: sizes from ints, gradient",
        lambda og: og.adopt(
            unpad,
            "unpad(Tensor x, int[] lengths) -> Tensor[]",
            "x[len(lengths), L, D] -> {i < len(lengths): [lengths[i], D]}",
            "x: f32 -> x",
            backward=unpad_back,
        ),
        lambda k: (
            randn(1, *((2, 4, 3), (3, 6, 2))[k]),
            ([1, 4], [5, 0, 3])[k],
        ),
        lambda x, lengths: [
            x[i].narrow(0, 0, n) * 1 for i, n in enumerate(lengths)
        ],
        unpad,
        grad="auto",
    )
)


# 25: a list whose entries may be absent
def fill_in(parts: list[T | None], base: T) -> T:
    out = base.clone()
    for p in parts:
        if p is not None:
            out = torch.maximum(out, p)
    return out


def fill_in_want(parts: list[T | None], base: T) -> T:
    there = [base, *(p for p in parts if p is not None)]
    return torch.stack(there).amax(0)


CASES.append(
    Case(
        "fill_in",
        "list of optional tensors",
        lambda og: og.adopt(
            fill_in,
            "fill_in(Tensor?[] parts, Tensor base) -> Tensor",
            "base[*N] -> [*N]",
            "parts: f32, base: f32 -> f32",
        ),
        lambda k: (
            (
                [None, randn(1, 4), None],
                [randn(1, 2, 3), None, randn(2, 2, 3), randn(4, 2, 3)],
            )[k],
            randn(3, *((4,), (2, 3))[k]),
        ),
        fill_in_want,
        fill_in,
    )
)


# 26: a step of Adam: three arguments written, a number returned
def adam_(p: T, g: T, m: T, v: T, step: int, lr: float = 0.1) -> float:
    m.mul_(0.9).add_(g, alpha=0.1)
    v.mul_(0.99).addcmul_(g, g, value=0.01)
    d = (m / (1 - 0.9**step)) / ((v / (1 - 0.99**step)).sqrt() + 1e-8)
    p.sub_(lr * d)
    return float(g.double().norm())


def adam_want(p: T, g: T, m: T, v: T, step: int, lr: float = 0.1) -> float:
    gn, mn, vn = (t.double().numpy() for t in (g, m, v))
    mn, vn = mn * 0.9 + gn * 0.1, vn * 0.99 + gn * gn * 0.01
    d = mn / (1 - 0.9**step) / (np.sqrt(vn / (1 - 0.99**step)) + 1e-8)
    p.copy_(torch.from_numpy(p.double().numpy() - lr * d))
    m.copy_(torch.from_numpy(mn))
    v.copy_(torch.from_numpy(vn))
    return float(np.sqrt((gn * gn).sum()))


CASES.append(
    Case(
        "adam_",
        "in place: three arguments, and a number returned",
        lambda og: og.adopt(
            adam_,
            "adam_(Tensor(a!) p, Tensor g, Tensor(b!) m, Tensor(c!) v,"
            " int step, float lr=0.1) -> Tensor",
            "p[*N], g[*N], m[*N], v[*N] -> []",
            "p: f32, g: p, m: p, v: p -> f64",
        ),
        lambda k: (
            *(randn(s, *((5,), (2, 3))[k]) for s in (1, 2, 3)),
            rand(4, *((5,), (2, 3))[k]),
            (1, 7)[k],
        ),
        adam_want,
        adam_,
        mutates=True,
    )
)


# 27: a Huber loss of two tensors that broadcast
def huber(a: T, b: T, delta: float = 1.0) -> T:
    d = (a - b).abs()
    return torch.where(d < delta, 0.5 * d * d, delta * (d - 0.5 * delta))


def huber_back(grad: T, a: T, b: T, delta: float) -> tuple[T, T]:
    d = (a - b).clamp(-delta, delta) * grad
    return d.sum_to_size(a.shape).to(a), (-d).sum_to_size(b.shape).to(b)


CASES.append(
    Case(
        "huber",
        "python: broadcasting, promotion, bf16, gradient",
        lambda og: og.adopt(
            huber,
            "huber(Tensor a, Tensor b, float delta=1.0) -> Tensor",
            "a[*A], b[*B] -> [*broadcast(A, B)]",
            "a: floating, b: floating -> promote(a, b)",
            backward=huber_back,
        ),
        lambda k: (
            (randn(1, 3, 1, dtype=torch.bfloat16), randn(2, 4))[k],
            (randn(3, 4, dtype=torch.bfloat16), randn(4, 2, 1, 4))[k],
            *((), (0.4,))[k],
        ),
        lambda a, b, delta=1.0: F.huber_loss(
            *torch.broadcast_tensors(a, b), reduction="none", delta=delta
        ),
        huber,
        grad="auto",
    )
)


# 28: a step of the game of life, on a torus
def life(grid: np.ndarray) -> np.ndarray:
    near = sum(
        np.roll(grid.astype(np.int8), (i, j), (0, 1))
        for i in (-1, 0, 1)
        for j in (-1, 0, 1)
        if i or j
    )
    return (near == 3) | (grid & (near == 2))


def life_want(grid: T) -> T:
    x = F.pad(grid[None, None].float(), (1, 1, 1, 1), mode="circular")
    n = F.conv2d(x, torch.ones(1, 1, 3, 3))[0, 0]
    return (n == 3) | (grid & (n == 4))


CASES.append(
    Case(
        "life",
        "numpy: bool",
        lambda og: og.adopt(
            life,
            "life(Tensor grid) -> Tensor",
            "grid[H, W] -> [H, W]",
            "grid: bool -> bool",
            call="grid.numpy()",
        ),
        lambda k: (ints(1, 3, *((4, 5), (8, 6))[k]) == 0,),
        life_want,
        lambda g: torch.from_numpy(life(g.numpy())),
    )
)


# 29: entropy over a dim that an argument picks
def entropy(x: T, dim: int = -1, keep_nats: bool = True) -> T:
    p = x.softmax(dim)
    e = -(p * p.log()).sum(dim)
    return e if keep_nats else e / 0.6931471805599453


def entropy_want(x: T, dim: int = -1, keep_nats: bool = True) -> T:
    made = torch.distributions.Categorical(logits=x.movedim(dim, -1))
    e = made.entropy()
    return e if keep_nats else e / e.new_tensor(2.0).log()


CASES.append(
    Case(
        "entropy",
        "python: reduces a dim that an int picks",
        lambda og: og.adopt(
            entropy,
            "entropy(Tensor x, int dim=-1, bool keep_nats=True) -> Tensor",
            "x[*A, D@dim, *B] -> [*A, *B]",
            "x: f32|f64 -> x",
        ),
        lambda k: (
            randn(1, *((2, 5), (3, 4, 2))[k], dtype=(f64, torch.float32)[k]),
            *((), (-2, False))[k],
        ),
        entropy_want,
        entropy,
    )
)


# 30: a window: no tensor argument, text, None
def window(n: int, kind: str = "hann", beta: float | None = None) -> Any:
    made = {"hann": np.hanning, "hamming": np.hamming}
    return np.kaiser(n, beta) if beta is not None else made[kind](n)


def window_want(n: int, kind: str = "hann", beta: float | None = None) -> T:
    if beta is not None:
        return torch.kaiser_window(n, False, beta, dtype=f64)
    make = torch.hann_window if kind == "hann" else torch.hamming_window
    return make(n, False, dtype=f64)


CASES.append(
    Case(
        "window",
        "numpy: no tensor argument, text, an optional float",
        lambda og: og.adopt(
            window,
            'window(int n, str kind="hann", float? beta=None) -> Tensor',
            "-> [n]",
            "-> f64",
        ),
        lambda k: ((6, "hamming"), (11, "hann", 5.0))[k],
        window_want,
        lambda *a: torch.from_numpy(window(*a)),
    )
)


# 31: one-hot codes of a type that the caller says
def one_hot(ids: T, classes: int, dtype: torch.dtype) -> T:
    out = torch.zeros(*ids.shape, classes, dtype=dtype)
    return out.scatter_(-1, ids[..., None], 1)


CASES.append(
    Case(
        "one_hot",
        "python: ScalarType, bf16 and bool results",
        lambda og: og.adopt(
            one_hot,
            "one_hot(Tensor ids, int classes, ScalarType dtype) -> Tensor",
            "ids[*N] -> [*N, classes]",
            "ids: i64 -> dtype",
        ),
        lambda k: (
            ints(1, 4, *((3,), (2, 5))[k]),
            (4, 6)[k],
            (torch.bfloat16, torch.bool)[k],
        ),
        lambda ids, n, dtype: (ids[..., None] == torch.arange(n)).to(dtype),
        one_hot,
    )
)


# 32: numpy's divmod writes two results
CASES.append(
    Case(
        "divmod",
        "numpy: writes two results",
        lambda og: og.adopt(
            np.divmod,
            "divmod(Tensor a, Tensor b) -> (Tensor, Tensor)",
            "a[*N], b[*N] -> [*N], [*N]",
            "a: i64, b: i64 -> i64, i64",
            call="a.numpy(), b.numpy(), out0.numpy(), out1.numpy()",
            name="blind::divmod",
        ),
        lambda k: (
            ints(1, 100, *((5,), (3, 4))[k]) - 50,
            ints(2, 7, *((5,), (3, 4))[k]) + 1,
        ),
        lambda a, b: (a.div(b, rounding_mode="floor"), a.remainder(b)),
        lambda a, b: tuple(
            torch.from_numpy(r) for r in np.divmod(a.numpy(), b.numpy())
        ),
    )
)


# 33: an operator of torch.ops that has no fake kernel nor gradient
def soft_threshold(x: T, t: float) -> T:
    return x.sign() * (x.abs() - t).clamp(min=0)


def soft_adopt(og: Any) -> Any:
    lib = torch.library.Library("blindlib", "FRAGMENT")
    lib.define("soft_threshold(Tensor x, float t) -> Tensor")
    lib.impl("soft_threshold", soft_threshold, "CPU")
    soft_adopt.held = lib  # type: ignore[attr-defined]
    return og.adopt(
        torch.ops.blindlib.soft_threshold,
        shape="x[*N] -> [*N]",
        dtype="x: f32|f64 -> x",
        backward=lambda grad, x, t: grad * (x.abs() > t),
    )


CASES.append(
    Case(
        "soft_threshold",
        "torch.ops: fake kernel and gradient added",
        soft_adopt,
        lambda k: (randn(1, *((6,), (3, 5))[k]), (0.5, 0.2)[k]),
        lambda x, t: F.softshrink(x, t),
        soft_threshold,
        grad="auto",
    )
)


# 34: a TVM-FFI function that writes its result
def tvm_cumprod(x: Any, out: Any) -> None:
    torch.cumprod(torch.from_dlpack(x), -1, out=torch.from_dlpack(out))


def tvm_adopt(og: Any) -> Any:
    import tvm_ffi  # noqa: PLC0415

    return og.adopt(
        tvm_ffi.convert(tvm_cumprod),
        "cumprod(Tensor x) -> Tensor",
        "x[*N, D] -> [*N, D]",
        "x: f32 -> x",
        name="blind::cumprod",
    )


CASES.append(
    Case(
        "tvm_cumprod",
        "tvm-ffi: writes its result",
        tvm_adopt,
        lambda k: (randn(1, *((5,), (3, 4))[k]),),
        lambda x: torch.from_numpy(np.cumprod(x.numpy(), -1)),
        lambda x: torch.cumprod(x, -1),
        needs=("tvm_ffi",),
    )
)


# 35: random marks: not equal values, but what they promise
def dropout(x: T, p: float) -> tuple[T, T]:
    keep = torch.rand(x.shape) >= p
    return x * keep / (1 - p), keep


def dropout_check(og: Any) -> str:
    op = og.adopt(
        dropout,
        "dropout(Tensor x, float p) -> (Tensor y, Tensor keep)",
        "x[*N] -> [*N], [*N]",
        "x: f32 -> x, bool",
        flags=["random"],
        backward=lambda grad_y, p, keep: grad_y * keep / (1 - p),
    )
    run = torch.compile(
        lambda x: op(x * 1, 0.25), backend="opgraft", fullgraph=True
    )
    for f in (lambda x: op(x, 0.25), run):
        for n in (200, 400):
            x = torch.ones(n, requires_grad=True)
            y, keep = f(x)
            if not torch.allclose(y, keep / 0.75):
                return "y is not x * keep / (1 - p)"
            if not 0.5 < keep.float().mean() < 0.95:
                return "the share that is kept is not near 0.75"
            if torch.equal(keep, f(x)[1]):
                return "two calls drew the same"
            y.sum().backward()
            if x.grad is None or not torch.allclose(x.grad, keep / 0.75):
                return "the gradient is not keep / (1 - p)"
    return ""


CASES.append(
    Case(
        "dropout",
        "random: two results, gradient by a saved result",
        lambda og: None,
        lambda k: (torch.zeros((4, 9)[k]), 0.5),
        lambda x, p: x,
        lambda x, p: dropout(x, p)[0],
        custom=dropout_check,
    )
)


# 36: top-k: a named tuple, the gradient by a saved result
def topk_back(grad_values: T, x: T, indices: T) -> T:
    return torch.zeros_like(x).scatter_(-1, indices, grad_values)


def topk_want(x: T, k: int) -> tuple[T, T]:
    order = x.argsort(dim=-1, descending=True, stable=True)[..., :k]
    return torch.take_along_dim(x, order, -1), order


CASES.append(
    Case(
        "topk",
        "python: named tuple, gradient by a result's name",
        lambda og: og.adopt(
            lambda x, k: torch.topk(x, k),
            "topk(Tensor x, int k) -> (Tensor values, Tensor indices)",
            "x[*N, D] -> [*N, k], [*N, k]",
            "x: f32|f64 -> x, i64",
            name="blind::topk",
            backward=topk_back,
        ),
        lambda k: (randn(1, *((6,), (3, 8))[k]), (2, 4)[k]),
        topk_want,
        lambda x, k: tuple(torch.topk(x, k)),
        grad="auto",
    )
)
