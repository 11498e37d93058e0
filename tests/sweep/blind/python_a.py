# SPDX-License-Identifier: Apache-2.0
"""Python callables, the first half: signals, images, sequences."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from blind.common import Case, ints, rand, randn

T = torch.Tensor
CASES: list[Case] = []
f64 = torch.float64


# 1: edit distance: tensors in, a number out
def levenshtein(a: T, b: T) -> int:
    s, t = a.tolist(), b.tolist()
    row = list(range(len(t) + 1))
    for i, p in enumerate(s, 1):
        last, row[0] = row[0], i
        for j, q in enumerate(t, 1):
            last, row[j] = (
                row[j],
                min(row[j] + 1, row[j - 1] + 1, last + (p != q)),
            )
    return row[-1]


def levenshtein_want(a: T, b: T) -> int:
    s, t = tuple(a.tolist()), tuple(b.tolist())

    @functools.cache
    def go(i: int, j: int) -> int:
        if not i or not j:
            return i + j
        same = int(s[i - 1] != t[j - 1])
        return min(go(i - 1, j) + 1, go(i, j - 1) + 1, go(i - 1, j - 1) + same)

    return go(len(s), len(t))


CASES.append(
    Case(
        "levenshtein",
        "python: number",
        lambda og: og.adopt(
            levenshtein,
            schema="levenshtein(Tensor a, Tensor b) -> Tensor",
            shape="a[N], b[M] -> []",
            dtype="a: i64, b: i64 -> i64",
        ),
        lambda k: (ints(1, 3, (7, 0)[k]), ints(2, 3, (5, 4)[k])),
        levenshtein_want,
        levenshtein,
    )
)


# 2: a scan; the last state is a view of the first result
def ema_scan(x: T, start: T, *, alpha: float = 0.5) -> tuple[T, T]:
    rows, s = [], start
    for r in x:
        s = alpha * s + (1 - alpha) * r
        rows.append(s)
    y = torch.stack(rows)
    return y, y[-1]


def ema_want(x: T, start: T, *, alpha: float = 0.5) -> tuple[T, T]:
    n = len(x)
    i = torch.arange(n)
    w = torch.tril(alpha ** (i[:, None] - i).clamp(min=0).to(x)) * (1 - alpha)
    y = w @ x + alpha ** (i[:, None] + 1).to(x) * start
    return y, y[-1].clone()


CASES.append(
    Case(
        "ema_scan",
        "python: keyword-only, result that is a view",
        lambda og: og.adopt(
            ema_scan,
            "ema_scan(Tensor x, Tensor start, *, float alpha=0.5)"
            " -> (Tensor, Tensor)",
            "x[N, D], start[D] -> [N, D], [D]",
            "x: floating, start: x -> x, x",
        ),
        lambda k: (randn(1, (4, 9)[k], 3), randn(2, 3)),
        ema_want,
        ema_scan,
        kwargs=lambda k: ({}, {"alpha": 0.75})[k],
    )
)


# 3: histogram equalisation of bytes
def equalise(img: np.ndarray) -> np.ndarray:
    hist = np.bincount(img.ravel(), minlength=256)
    cdf = hist.cumsum()
    low = cdf[cdf > 0][0]
    table = (cdf - low) * 255 // max(img.size - low, 1)
    return np.clip(table, 0, 255).astype(np.uint8)[img]


def equalise_want(img: T) -> T:
    flat = img.flatten().long()
    cdf = (flat[None, :] <= torch.arange(256)[:, None]).sum(1)
    low = int(cdf[int(flat.min())])
    table = ((cdf - low) * 255).div(
        max(len(flat) - low, 1), rounding_mode="floor"
    )
    return table.clamp(0, 255)[img.long()].to(torch.uint8)


CASES.append(
    Case(
        "equalise",
        "numpy: uint8, non-contiguous",
        lambda og: og.adopt(
            equalise,
            "equalise(Tensor img) -> Tensor",
            "img[H, W] -> [H, W]",
            "img: u8 -> u8",
            call="img.numpy()",
        ),
        lambda k: (
            (
                ints(1, 90, 6, 5, dtype=torch.uint8).t(),
                ints(2, 200, 8, 14, dtype=torch.uint8)[:, ::2],
            )[k],
        ),
        equalise_want,
        lambda img: torch.from_numpy(equalise(img.numpy())),
    )
)


# 4: a biquad section with an optional state
def biquad(
    x: np.ndarray, b: list[float], a: list[float], zi: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    z = np.zeros(2) if zi is None else zi.copy()
    y = np.empty_like(x)
    for i, v in enumerate(x):
        y[i] = b[0] * v + z[0]
        z[0] = b[1] * v - a[1] * y[i] + z[1]
        z[1] = b[2] * v - a[2] * y[i]
    return y, z


def biquad_want(
    x: T, b: list[float], a: list[float], zi: T | None = None
) -> tuple[T, T]:
    from scipy.signal import lfilter  # noqa: PLC0415

    z = np.zeros(2) if zi is None else zi.numpy()
    y, zf = lfilter(b, a, x.numpy(), zi=z)
    return torch.from_numpy(y), torch.from_numpy(zf)


def biquad_plain(x: T, b: Any, a: Any, zi: T | None = None) -> Any:
    return biquad(x.numpy(), b, a, None if zi is None else zi.numpy())


CASES.append(
    Case(
        "biquad",
        "numpy: optional tensor, float lists",
        lambda og: og.adopt(
            biquad,
            "biquad(Tensor x, float[] b, float[] a, Tensor? zi=None)"
            " -> (Tensor, Tensor)",
            "x[N], zi?[2] -> [N], [2]",
            "x: f64, zi: x -> x, x",
            call="x.numpy(), b, a, None if zi is None else zi.numpy()",
        ),
        lambda k: (
            randn(1, (6, 11)[k], dtype=f64),
            [0.2, 0.4, 0.2],
            [1.0, -0.3, 0.1],
            *((), (randn(3, 2, dtype=f64),))[k],
        ),
        biquad_want,
        biquad_plain,
        needs=("scipy",),
    )
)


# 5: a step of k-means: a dict, in another order than the schema
def kmeans_step(x: T, centers: T) -> dict[str, T]:
    labels = torch.cdist(x, centers).argmin(1)
    new = centers.clone()
    for j in range(len(centers)):
        if (labels == j).any():
            new[j] = x[labels == j].mean(0)
    return {"labels": labels, "moved": new}


def kmeans_want(x: T, centers: T) -> tuple[T, T]:
    d = ((x[:, None].double() - centers.double()) ** 2).sum(-1)
    labels = d.argmin(1)
    hot = F.one_hot(labels, len(centers)).double()
    n = hot.sum(0)[:, None]
    mean = hot.t() @ x.double() / n.clamp(min=1)
    return torch.where(n > 0, mean, centers.double()).to(x), labels


def kmeans_plain(x: T, centers: T) -> tuple[T, T]:
    d = kmeans_step(x, centers)
    return d["moved"], d["labels"]


CASES.append(
    Case(
        "kmeans_step",
        "python: dict",
        lambda og: og.adopt(
            kmeans_step,
            "kmeans_step(Tensor x, Tensor centers)"
            " -> (Tensor moved, Tensor labels)",
            "x[N, D], centers[K, D] -> [K, D], [N]",
            "x: f32, centers: x -> x, i64",
        ),
        lambda k: (randn(1, (9, 20)[k], 2), randn(2, (3, 5)[k], 2)),
        kmeans_want,
        kmeans_plain,
    )
)


# 6: non-maximum suppression, padded, with how many count
def nms(boxes: np.ndarray, scores: np.ndarray, iou: float) -> Any:
    order = list(np.argsort(-scores, kind="stable"))
    keep: list[int] = []
    for i in order:
        for j in keep:
            lo = np.maximum(boxes[i, :2], boxes[j, :2])
            hi = np.minimum(boxes[i, 2:], boxes[j, 2:])
            both = np.prod(np.maximum(hi - lo, 0))
            one, two = (np.prod(b[2:] - b[:2]) for b in (boxes[i], boxes[j]))
            if both > iou * (one + two - both):
                break
        else:
            keep.append(int(i))
    padded = np.full(len(boxes), -1, dtype=np.int64)
    padded[: len(keep)] = keep
    return padded, len(keep)


def nms_want(boxes: T, scores: T, iou: float) -> tuple[T, int]:
    size = (boxes[:, 2:] - boxes[:, :2]).prod(1)
    lo = torch.maximum(boxes[:, None, :2], boxes[None, :, :2])
    hi = torch.minimum(boxes[:, None, 2:], boxes[None, :, 2:])
    both = (hi - lo).clamp(min=0).prod(2)
    bad = both / (size[:, None] + size - both) > iou
    live = torch.ones(len(boxes), dtype=torch.bool)
    out = torch.full((len(boxes),), -1)
    n = 0
    for i in scores.argsort(descending=True, stable=True).tolist():
        if live[i]:
            out[n], n = i, n + 1
            live &= ~bad[i]
    return out, n


def boxes_of(k: int) -> tuple[Any, ...]:
    n = (8, 15)[k]
    at = rand(1, n, 2) * 4
    boxes = torch.cat([at, at + 1 + rand(2, n, 2)], 1)
    return boxes, rand(3, n), (0.3, 0.15)[k]


CASES.append(
    Case(
        "nms",
        "numpy: padded, with a count",
        lambda og: og.adopt(
            nms,
            "nms(Tensor boxes, Tensor scores, float iou)"
            " -> (Tensor keep, Tensor count)",
            "boxes[N, 4], scores[N] -> [N], []",
            "boxes: f32, scores: f32 -> i64, i64",
            call="boxes.numpy(), scores.numpy(), iou",
        ),
        boxes_of,
        nms_want,
        lambda b, s, iou: nms(b.numpy(), s.numpy(), iou),
    )
)


# 7: an entropy coder's frequencies: fixed result, empty input
def frequencies(data: T) -> T:
    counts = torch.bincount(data.flatten().int(), minlength=256)
    return counts.clamp(min=1)


def frequencies_want(data: T) -> T:
    made = np.histogram(data.numpy(), bins=np.arange(257))[0]
    return torch.from_numpy(np.maximum(made, 1).astype(np.int64))


CASES.append(
    Case(
        "frequencies",
        "python: uint8, empty",
        lambda og: og.adopt(
            frequencies,
            "frequencies(Tensor data) -> Tensor",
            "data[*N] -> [256]",
            "data: u8 -> i64",
        ),
        lambda k: (ints(1, 256, *((3, 7), (0,))[k], dtype=torch.uint8),),
        frequencies_want,
        frequencies,
    )
)


# 8: a rotary embedding, with its gradient
def rotary(x: T, cos: T, sin: T) -> T:
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


def rotary_back(grad: T, x: T, cos: T, sin: T) -> tuple[T, T, T]:
    a, b = x.chunk(2, -1)
    g, h = grad.chunk(2, -1)
    gc = (g * a + h * b).sum_to_size(cos.shape)
    gs = (h * a - g * b).sum_to_size(sin.shape)
    return torch.cat([g * cos + h * sin, h * cos - g * sin], -1), gc, gs


def rotary_want(x: T, cos: T, sin: T) -> T:
    d = x.shape[-1] // 2
    turn = torch.complex(cos, sin)
    z = torch.complex(x[..., :d], x[..., d:]) * turn
    return torch.cat([z.real, z.imag], -1)


CASES.append(
    Case(
        "rotary",
        "python: gradient, dims by expression",
        lambda og: og.adopt(
            rotary,
            "rotary(Tensor x, Tensor cos, Tensor sin) -> Tensor",
            "x[*B, L, D], cos[L, D // 2], sin[L, D // 2] -> [*B, L, D]",
            "x: floating, cos: x, sin: x -> x",
            backward=rotary_back,
        ),
        lambda k: (
            randn(1, *((3, 4), (2, 2, 5, 6))[k]),
            *(randn(s, *((3, 2), (5, 3))[k]) for s in (2, 3)),
        ),
        rotary_want,
        rotary,
        grad="auto",
    )
)


# 9: bilinear resize, linear, with its adjoint
def weights(n: int, m: int) -> np.ndarray:
    at = np.clip((np.arange(m) + 0.5) * n / m - 0.5, 0, n - 1)
    low = np.floor(at).astype(int)
    made = np.zeros((m, n))
    rows = np.arange(m)
    np.add.at(made, (rows, low), 1 - (at - low))
    np.add.at(made, (rows, np.minimum(low + 1, n - 1)), at - low)
    return made


def resize(x: np.ndarray, h: int, w: int) -> np.ndarray:
    up, side = weights(x.shape[-2], h), weights(x.shape[-1], w)
    return (up @ x @ side.T).astype(x.dtype)


def resize_back(grad: T, x: T, h: int, w: int) -> Any:
    up, side = weights(x.shape[-2], h), weights(x.shape[-1], w)
    return (up.T @ grad.numpy() @ side).astype(grad.numpy().dtype)


def resize_want(x: T, h: int, w: int) -> T:
    flat = x.reshape(1, -1, *x.shape[-2:])
    y = F.interpolate(flat, (h, w), mode="bilinear", align_corners=False)
    return y.reshape(*x.shape[:-2], h, w)


CASES.append(
    Case(
        "resize",
        "numpy: int sizes, gradient a numpy array, pack",
        lambda og: og.adopt(
            resize,
            "resize(Tensor x, int h, int w) -> Tensor",
            "x[*N, H, W] -> [*N, h, w]",
            "x: f32|f64 -> x",
            call="x.numpy(), h, w",
            backward=resize_back,
            batch="pack",
        ),
        lambda k: (
            randn(1, *((4, 5), (2, 3, 6, 3))[k]),
            *((7, 3), (3, 8))[k],
        ),
        resize_want,
        lambda x, h, w: torch.from_numpy(resize(x.numpy(), h, w)),
        grad="auto",
        vmap=lambda: ((randn(4, 3, 4, 4), 5, 6), (0, None, None)),
    )
)


# 10: the Laplacian of a graph
def laplacian(edges: T, n: int, normalised: bool = False) -> T:
    adj = torch.zeros(n, n)
    adj[edges[0], edges[1]] = 1
    adj[edges[1], edges[0]] = 1
    deg = adj.sum(1)
    if normalised:
        s = deg.clamp(min=1).rsqrt()
        return torch.diag((deg > 0).float()) - s[:, None] * adj * s
    return torch.diag(deg) - adj


def laplacian_want(edges: T, n: int, normalised: bool = False) -> T:
    out = np.zeros((n, n))
    pairs = {frozenset(p) for p in edges.t().tolist()}
    for a, b in (tuple(p) for p in pairs):
        out[a, b] = out[b, a] = -1
        out[a, a] += 1
        out[b, b] += 1
    if normalised:
        s = 1 / np.sqrt(np.maximum(out.diagonal(), 1))
        out = s[:, None] * out * s
    return torch.from_numpy(out).float()


def edges_of(k: int) -> tuple[Any, ...]:
    n, e = ((5, 6), (9, 14))[k]
    a = ints(1, n, e)
    return (
        torch.stack([a, (a + 1 + ints(2, n - 1, e)) % n]),
        n,
        *((), (True,))[k],
    )


CASES.append(
    Case(
        "laplacian",
        "python: no floating argument, bool default",
        lambda og: og.adopt(
            laplacian,
            "laplacian(Tensor edges, int n, bool normalised=False) -> Tensor",
            "edges[2, E] -> [n, n]",
            "edges: i64 -> f32",
        ),
        edges_of,
        laplacian_want,
        laplacian,
    )
)


# 11: a Kalman step: a dataclass comes back
@dataclass
class Belief:
    mean: T
    cov: T


def kalman(x: T, p: T, z: T, h: T, noise: float = 0.1) -> Belief:
    s = h @ p @ h.t() + noise * torch.eye(len(z), dtype=x.dtype)
    gain = torch.linalg.solve(s, h @ p).t()
    return Belief(x + gain @ (z - h @ x), p - gain @ h @ p)


def kalman_want(x: T, p: T, z: T, h: T, noise: float = 0.1) -> tuple[T, T]:
    inv = torch.linalg.inv(p)
    cov = torch.linalg.inv(inv + h.t() @ h / noise)
    return cov @ (inv @ x + h.t() @ z / noise), cov


def kalman_args(k: int) -> tuple[Any, ...]:
    n, m = ((3, 1), (4, 2))[k]
    a = randn(1, n, n, dtype=f64)
    p = a @ a.t() + torch.eye(n, dtype=f64)
    x, z, h = randn(2, n), randn(3, m), randn(4, m, n)
    return x.double(), p, z.double(), h.double(), *((), (0.5,))[k]


CASES.append(
    Case(
        "kalman",
        "python: dataclass",
        lambda og: og.adopt(
            kalman,
            "kalman(Tensor x, Tensor p, Tensor z, Tensor h,"
            " float noise=0.1) -> (Tensor mean, Tensor cov)",
            "x[N], p[N, N], z[M], h[M, N] -> [N], [N, N]",
            "x: f64, p: x, z: x, h: x -> x, x",
        ),
        kalman_args,
        kalman_want,
        lambda *a: (kalman(*a).mean, kalman(*a).cov),
    )
)
