# SPDX-License-Identifier: Apache-2.0
"""Python callables, the second part: gradients, vmap, objects, lists."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from blind.common import Case, ints, rand, randn

T = torch.Tensor
CASES: list[Case] = []
f64 = torch.float64


# 12: a quantiser: a tensor and two numbers, with a flag
def quantise(x: T, bits: int = 8, symmetric: bool = False) -> Any:
    low, high = (0.0, 0.0) if not x.numel() else (x.min(), x.max())
    low, high = min(float(low), 0.0), max(float(high), 0.0)
    if symmetric:
        high = max(-low, high)
        low = -high
    top = 2**bits - 1
    scale = (high - low) / top or 1.0
    zero = round(-low / scale)
    q = (x / scale).round().add(zero).clamp(0, top).to(torch.uint8)
    return q, scale, zero


def quantise_want(x: T, bits: int = 8, symmetric: bool = False) -> Any:
    a = np.append(x.double().numpy().ravel(), 0.0)
    low, high = a.min(), a.max()
    if symmetric:
        low, high = -np.abs(a).max(), np.abs(a).max()
    top = (1 << bits) - 1
    scale = float((high - low) / top) or 1.0
    zero = int(np.round(-low / scale))
    q = np.clip(np.round(x.numpy() / np.float32(scale)) + zero, 0, top)
    return torch.from_numpy(q.astype(np.uint8)), scale, zero


CASES.append(
    Case(
        "quantise",
        "python: several results, numbers among them",
        lambda og: og.adopt(
            quantise,
            "quantise(Tensor x, int bits=8, bool symmetric=False)"
            " -> (Tensor q, Tensor scale, Tensor zero)",
            "x[*N] -> [*N], [], []",
            "x: f32 -> u8, f64, i64",
        ),
        lambda k: (randn(1, *((4, 5), (7,))[k]), *((), (4, True))[k]),
        quantise_want,
        quantise,
    )
)


# 13: top-p sampling with given uniforms, rows independent
def top_p(logits: T, u: T, p: float) -> T:
    prob, order = logits.softmax(-1).sort(dim=-1, descending=True, stable=True)
    total = prob.cumsum(-1)
    kept = torch.where(total - prob < p, prob, torch.zeros_like(prob))
    cdf = (kept / kept.sum(-1, keepdim=True)).cumsum(-1)
    at = (cdf < u[..., None]).sum(-1).clamp(max=logits.shape[-1] - 1)
    return order.gather(-1, at[..., None])[..., 0]


def top_p_want(logits: T, u: T, p: float) -> T:
    rows = logits.reshape(-1, logits.shape[-1]).tolist()
    out = []
    for row, v in zip(rows, u.flatten().tolist(), strict=True):
        e = np.exp(np.array(row) - max(row))
        e /= e.sum()
        order = sorted(range(len(row)), key=lambda i, e=e: -e[i])  # type: ignore[misc]
        kept, total = [], 0.0
        for i in order:
            if total >= p:
                break
            kept.append(i)
            total += e[i]
        run = 0.0
        for i in kept:
            run += e[i] / total
            if run >= v:
                break
        out.append(i)
    return torch.tensor(out).reshape(u.shape)


CASES.append(
    Case(
        "top_p",
        "python: rows independent, vmap in one call",
        lambda og: og.adopt(
            top_p,
            "top_p(Tensor logits, Tensor u, float p) -> Tensor",
            "logits[*B, V], u[*B] -> [*B]",
            "logits: f32, u: f32 -> i64",
            batch="pack",
        ),
        lambda k: (
            randn(1, *((4, 6), (2, 3, 9))[k]),
            rand(2, *((4,), (2, 3))[k]),
            (0.8, 0.5)[k],
        ),
        top_p_want,
        top_p,
        vmap=lambda: (
            (randn(3, 6, 5, 3), rand(4, 6, 5), 0.7),
            (0, 0, None),
        ),
    )
)


# 14: a Haar step: two results, gradients by number
def haar(x: T) -> tuple[T, T]:
    a, b = x[..., ::2], x[..., 1::2]
    return (a + b) * 0.5**0.5, (a - b) * 0.5**0.5


def haar_back(grad_0: T, grad_1: T) -> T:
    r = 0.5**0.5
    pair = torch.stack([(grad_0 + grad_1) * r, (grad_0 - grad_1) * r], -1)
    return pair.flatten(-2)


def haar_want(x: T) -> tuple[T, T]:
    y = x.unflatten(-1, (-1, 2)) @ x.new_tensor([[1.0, 1.0], [1.0, -1.0]])
    y = y / 2**0.5
    return y[..., 0], y[..., 1]


CASES.append(
    Case(
        "haar",
        "python: lambda, grad_0 and grad_1, vmap",
        lambda og: og.adopt(
            lambda x: haar(x),
            "haar(Tensor x) -> (Tensor, Tensor)",
            "x[*N, D] -> [*N, D // 2], [*N, D // 2]",
            "x: f32|f64 -> x, x",
            name="blind::haar",
            backward=haar_back,
            batch="pack",
        ),
        lambda k: (randn(1, *((3, 8), (2, 2, 6))[k]),),
        haar_want,
        haar,
        grad="auto",
        vmap=lambda: ((randn(2, 3, 5, 4),), 1),
    )
)


# 15: a Sobel filter: Python lists of numbers come back
def sobel(img: np.ndarray) -> list[list[float]]:
    h, w = img.shape
    rows = img.tolist()
    out = [[0.0] * w for _ in range(h)]
    for i in range(1, h - 1):
        for j in range(1, w - 1):
            near = [r[j - 1 : j + 2] for r in rows[i - 1 : i + 2]]
            (a, b, c), (d, _, e), (f, g, i2) = near
            gx = c + 2 * e + i2 - a - 2 * d - f
            gy = f + 2 * g + i2 - a - 2 * b - c
            out[i][j] = (gx * gx + gy * gy) ** 0.5
    return out


def sobel_want(img: T) -> T:
    k = torch.tensor([[-1.0, 0, 1], [-2, 0, 2], [-1, 0, 1]], dtype=f64)
    both = torch.stack([k, k.t()])[:, None]
    y = F.conv2d(img[None, None], both)[0].norm(dim=0)
    return F.pad(y, (1, 1, 1, 1))


CASES.append(
    Case(
        "sobel",
        "numpy: Python lists come back, non-contiguous",
        lambda og: og.adopt(
            sobel,
            "sobel(Tensor img) -> Tensor",
            "img[H, W] -> [H, W]",
            "img: f64 -> f64",
            call="img.numpy()",
        ),
        lambda k: (
            (
                randn(1, 5, 6, dtype=f64).t(),
                randn(2, 9, 14, dtype=f64)[:, ::2],
            )[k],
        ),
        sobel_want,
        lambda img: torch.tensor(sobel(img.numpy()), dtype=f64),
    )
)


# 16: Gram-Schmidt in place, the argument comes back
def gram_schmidt_(x: T) -> T:
    for i in range(len(x)):
        for j in range(i):
            x[i] -= (x[i] @ x[j]) * x[j]
        x[i] /= x[i].norm()
    return x


def gram_schmidt_want(x: T) -> T:
    q, r = np.linalg.qr(x.numpy().T)
    return x.copy_(torch.from_numpy((q * np.sign(r.diagonal())).T.copy()))


CASES.append(
    Case(
        "gram_schmidt_",
        "in place: returns the argument",
        lambda og: og.adopt(
            gram_schmidt_,
            "gram_schmidt_(Tensor(a!) x) -> Tensor(a!)",
            "x[N, D] ->",
            "x: f64 ->",
        ),
        lambda k: (randn(1, *((2, 4), (4, 6))[k], dtype=f64),),
        gram_schmidt_want,
        gram_schmidt_,
        mutates=True,
    )
)


# 17: a running median: a list of numbers from a sliding window
def running_median(x: T, width: int) -> list[float]:
    import statistics  # noqa: PLC0415

    v, r = x.tolist(), width // 2
    near = (v[max(i - r, 0) : i + r + 1] for i in range(len(v)))
    return [statistics.median_low(n) for n in near]


def running_median_want(x: T, width: int) -> T:
    r = width // 2
    padded = F.pad(x[None], (r, r), value=float("nan"))[0]
    return padded.unfold(0, 2 * r + 1, 1).nanmedian(-1).values


CASES.append(
    Case(
        "running_median",
        "python: list of numbers, f32",
        lambda og: og.adopt(
            running_median,
            "running_median(Tensor x, int width) -> Tensor",
            "x[N] -> [N]",
            "x: f32 -> x",
        ),
        lambda k: (randn(1, (7, 12)[k]), (3, 5)[k]),
        running_median_want,
        lambda x, w: torch.tensor(running_median(x, w)),
    )
)


# 18: time warping: a number, and a gradient of numpy arrays
def warp_table(a: np.ndarray, b: np.ndarray) -> Any:
    cost = ((a[:, None] - b[None]) ** 2).sum(-1)
    t = np.full((len(a) + 1, len(b) + 1), np.inf)
    t[0, 0] = 0
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            near = min(t[i - 1, j], t[i, j - 1], t[i - 1, j - 1])
            t[i, j] = cost[i - 1, j - 1] + near
    return t


def dtw(a: np.ndarray, b: np.ndarray) -> float:
    return float(warp_table(a, b)[-1, -1])


def dtw_back(grad: T, a: T, b: T) -> Any:
    x, y = a.detach().numpy(), b.detach().numpy()
    t = warp_table(x, y)
    ga, gb = np.zeros_like(x), np.zeros_like(y)
    i, j = len(x), len(y)
    while i and j:
        d = 2 * (x[i - 1] - y[j - 1]) * float(grad)
        ga[i - 1] += d
        gb[j - 1] -= d
        steps = [(i - 1, j - 1), (i - 1, j), (i, j - 1)]
        i, j = min(steps, key=lambda at: t[at])
    return ga, gb


def dtw_want(a: T, b: T) -> float:
    cost = ((a[:, None] - b[None]) ** 2).sum(-1).tolist()

    @functools.cache
    def go(i: int, j: int) -> float:
        if i < 0 or j < 0:
            return 0.0 if i == j == -1 else float("inf")
        near = min(go(i - 1, j), go(i, j - 1), go(i - 1, j - 1))
        return float(cost[i][j]) + near

    return go(len(a) - 1, len(b) - 1)


CASES.append(
    Case(
        "dtw",
        "numpy: number, gradient of numpy arrays",
        lambda og: og.adopt(
            dtw,
            "dtw(Tensor a, Tensor b) -> Tensor",
            "a[N, D], b[M, D] -> []",
            "a: f64, b: f64 -> f64",
            call="a.numpy(), b.numpy()",
            backward=dtw_back,
        ),
        lambda k: (
            randn(1, (4, 6)[k], 2, dtype=f64),
            randn(2, (5, 3)[k], 2, dtype=f64),
        ),
        dtw_want,
        lambda a, b: dtw(a.numpy(), b.numpy()),
        grad="fd",
    )
)


# 19: a functor with state, called for what it does
class RunningMean:
    """The mean of all that it has been given."""

    def __init__(self) -> None:
        self.total, self.count = 0.0, 0

    def __call__(self, x: T) -> tuple[T, int]:
        self.total += float(x.sum())
        self.count += x.numel()
        return torch.tensor(self.total / max(self.count, 1)), self.count


def running_mean_check(og: Any) -> str:
    made = RunningMean()
    op = og.adopt(
        made,
        "running_mean(Tensor x) -> (Tensor mean, Tensor count)",
        "x[*N] -> [], []",
        "x: f32 -> f32, i64",
        name="blind::running_mean",
        flags=["side_effect"],
    )
    run = torch.compile(
        lambda x: (op(x * 1)[0] + 0, op(x * 1)[1] + 0),
        backend="opgraft",
        fullgraph=True,
    )
    first = op(torch.ones(3))
    if first[1].item() != 3 or first[0].item() != 1:
        return f"first call: {first}"
    mean, count = run(torch.full((2, 2), 2.0))
    # two calls in the graph, the second's count after the first's
    if (made.count, count.item()) != (11, 11):
        return f"after the graph: {made.count}, result {count.item()}"
    if abs(mean.item() - (3 + 8) / 7) > 1e-6:
        return f"mean of the first call in the graph: {mean.item()}"
    run(torch.ones(5))
    return "" if made.count == 21 else f"at the end: {made.count}"


def running_mean_plain(x: T) -> Any:
    return RunningMean()(x)


CASES.append(
    Case(
        "running_mean",
        "functor: state, side_effect",
        lambda og: None,
        lambda k: (randn(1, (3, 8)[k]),),
        lambda x: (x.mean(), x.numel()),
        running_mean_plain,
        custom=running_mean_check,
    )
)


# 20: a bound method: a table's rows by number
class Table:
    """Rows that are looked up, unknown numbers giving row 0."""

    def __init__(self, rows: int, dim: int) -> None:
        self.rows = randn(7, rows, dim)

    def look(self, ids: T) -> T:
        ok = (ids >= 0) & (ids < len(self.rows))
        return self.rows[torch.where(ok, ids, 0)]


def table_want(ids: T) -> T:
    rows = Table(10, 4).rows.numpy()
    flat = [rows[i if 0 <= i < 10 else 0] for i in ids.flatten().tolist()]
    made = np.stack(flat) if flat else np.zeros((0, 4), np.float32)
    return torch.from_numpy(made).reshape(*ids.shape, 4)


CASES.append(
    Case(
        "table",
        "method: constant dim, 0-d input",
        lambda og: og.adopt(
            Table(10, 4).look,
            "look(Tensor ids) -> Tensor",
            "ids[*N] -> [*N, 4]",
            "ids: i64 -> f32",
            name="blind::look",
        ),
        lambda k: ((torch.tensor(12), ints(1, 12, 3, 5))[k],),
        table_want,
        lambda ids: Table(10, 4).look(ids),
    )
)


# 21: a partial: the mean of a window
def window_mean(x: T, width: int, stride: int = 1) -> T:
    return x.unfold(-1, width, stride).mean(-1)


CASES.append(
    Case(
        "window_mean",
        "partial: dims by expression",
        lambda og: og.adopt(
            functools.partial(window_mean, width=3, stride=2),
            "window_mean(Tensor x) -> Tensor",
            "x[*N, D] -> [*N, (D - 3) // 2 + 1]",
            "x: floating -> x",
            name="blind::window_mean",
        ),
        lambda k: (randn(1, *((7,), (2, 3, 10))[k]),),
        lambda x: F.avg_pool1d(x.reshape(1, -1, x.shape[-1]), 3, 2).reshape(
            *x.shape[:-1], -1
        ),
        functools.partial(window_mean, width=3, stride=2),
    )
)


# 22: a closure: a filter of given taps, gradient by a map
def make_fir(taps: list[float]) -> Any:
    def fir(x: T) -> T:
        out = torch.zeros_like(x)
        for i, c in enumerate(taps):
            out[i:] += c * x[: len(x) - i]
        return out

    def back(g: T) -> T:
        out = torch.zeros_like(g)
        for i, c in enumerate(taps):
            out[: len(g) - i] += c * g[i:]
        return out

    return fir, back


def fir_want(x: T) -> T:
    taps = x.new_tensor([0.5, 0.3, -0.2])
    full = F.pad(x, (2, 0))[None, None]
    return F.conv1d(full, taps.flip(0)[None, None])[0, 0]


def fir_adopt(og: Any) -> Any:
    fir, back = make_fir([0.5, 0.3, -0.2])
    return og.adopt(
        fir,
        "fir(Tensor x) -> Tensor",
        "x[N] -> [N]",
        "x: f32|f64 -> x",
        name="blind::fir",
        backward=(back, "(grad) -> x"),
    )


CASES.append(
    Case(
        "fir",
        "closure: backward as (fn, map), looped vmap",
        fir_adopt,
        lambda k: (randn(1, (6, 13)[k], dtype=(torch.float32, f64)[k]),),
        fir_want,
        make_fir([0.5, 0.3, -0.2])[0],
        grad="auto",
        vmap=lambda: ((randn(2, 4, 7),), 0),
    )
)
