# SPDX-License-Identifier: Apache-2.0
"""What the right operators of this folder compute, in float64.

As in references.py: named like the operator, arguments in the schema's order.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor


def quantize_blocks(x: Tensor) -> tuple[Tensor, Tensor]:
    count = -(-x.shape[-1] // 32)
    padded = F.pad(x, (0, 32 * count - x.shape[-1]))
    blocks = padded.reshape(*x.shape[:-1], count, 32)
    known = torch.nan_to_num(blocks.abs(), nan=0.0, posinf=math.inf)
    scale = known.amax(-1) / 127
    level = torch.round(blocks / scale.unsqueeze(-1)).clamp(-127, 127)
    level = torch.where(scale.unsqueeze(-1) > 0, level, torch.zeros_like(level))
    q = torch.nan_to_num(level, nan=0.0).to(torch.int8)
    return q.reshape(padded.shape)[..., : x.shape[-1]], scale


def max_pool_line(
    x: Tensor, kernel: int = 3, stride: int = 2, padding: int = 1
) -> Tensor:
    x = x.double()
    x = torch.where(x == x, x, torch.full_like(x, -math.inf))
    padded = F.pad(x, (padding, padding), value=-math.inf)
    return padded.unfold(-1, kernel, stride).amax(-1)


def dilated_conv(x: Tensor, weight: Tensor, dilation: int = 1) -> Tensor:
    x, weight = x.double(), weight.double()
    length, taps = x.shape[-1], weight.shape[-1]
    margin = taps // 2 * dilation
    padded = F.pad(x, (margin, margin))
    y = torch.zeros_like(x)
    for k in range(taps):
        part = padded[..., k * dilation : k * dilation + length]
        y = y + weight[:, k : k + 1] * part
    return y


def causal_softmax(x: Tensor) -> Tensor:
    queries, keys = x.shape[-2:]
    seen = torch.ones(queries, keys, dtype=torch.bool).tril(keys - queries)
    return torch.softmax(x.double().masked_fill(~seen, -math.inf), -1)


def rope_pairs(x: Tensor, offset: int = 0) -> Tensor:
    x = x.double()
    half = x.shape[-1] // 2
    exponent = -torch.arange(half, dtype=torch.float64) / max(half, 1)
    place = torch.arange(x.shape[0], dtype=torch.float64) + offset
    angle = place[:, None] * torch.pow(10000.0, exponent)
    cosine, sine = angle.cos()[:, None], angle.sin()[:, None]
    a, b = x[..., 0::2], x[..., 1::2]
    pairs = [a * cosine - b * sine, b * cosine + a * sine]
    return torch.stack(pairs, -1).flatten(-2)


def argsort_stable(x: Tensor) -> Tensor:
    return torch.sort(x, dim=-1, stable=True).indices


def window_attention(
    q: Tensor, k: Tensor, v: Tensor, radius: int = 2
) -> Tensor:
    q, k, v = q.double(), k.double(), v.double()
    place = torch.arange(q.shape[1])
    hidden = (place[:, None] - place[None, :]).abs() > radius
    score = (q @ k.transpose(1, 2)).masked_fill(hidden, -math.inf)
    return torch.softmax(score, -1) @ v


def mean_of_sixteen(x: Tensor) -> Tensor:
    x = x.double()
    means = [part.mean(-1) for part in x.split(16, -1) if part.shape[-1]]
    return torch.stack(means, -1) if means else x


def cummax_index(x: Tensor) -> tuple[Tensor, Tensor]:
    value, index = x.cummax(-1)
    return value, index


def haar_step(x: Tensor) -> Tensor:
    x = x.double()
    pairs = x.shape[-1] // 2
    a, b = x[..., 0 : 2 * pairs : 2], x[..., 1 : 2 * pairs : 2]
    return torch.cat([(a + b) / 2, x[..., 2 * pairs :], (a - b) / 2], -1)


def avg_pool_ceil(x: Tensor, kernel: int = 3, stride: int = 2) -> Tensor:
    x = x.double()
    places = -(-(x.shape[-1] - kernel) // stride) + 1
    starts = [p * stride for p in range(places)]
    return torch.stack([x[..., s : s + kernel].mean(-1) for s in starts], -1)


def exponential_average(x: Tensor, alpha: float = 0.5) -> Tensor:
    x = x.double()
    steps: list[Tensor] = []
    for t in range(x.shape[-1]):
        now = x[..., t]
        steps.append(alpha * now + (1 - alpha) * steps[-1] if t else now)
    return torch.stack(steps, -1) if steps else x


def alibi_bias(score: Tensor) -> Tensor:
    heads, queries, keys = score.shape
    head = torch.arange(1, heads + 1, dtype=torch.float64)
    slope = torch.pow(2.0, -8 * head / max(heads, 1))
    place = torch.arange(queries) + keys - queries
    far = (place[:, None] - torch.arange(keys)[None, :]).abs()
    return score.double() - slope[:, None, None] * far


def weave_halves(x: Tensor) -> Tensor:
    width = x.shape[-2]
    place = torch.arange(width)
    first = (width + 1) // 2
    from_ = torch.where(place % 2 == 0, place // 2, first + place // 2)
    return x[..., from_, :]


NF4 = (
    [-1.0, -0.6961928, -0.5250731, -0.3949175]
    + [-0.2844414, -0.1847734, -0.09105, 0.0]
    + [0.0795803, 0.1609302, 0.2461123, 0.3379152]
    + [0.4407098, 0.562617, 0.7229568, 1.0]
)


def dequantize_nf4(code: Tensor, scale: Tensor) -> Tensor:
    nibble = torch.stack([code >> 4, code & 15], -1).flatten(-2).long()
    value = torch.tensor(NF4, dtype=torch.float64)[nibble]
    wide = scale.double().repeat_interleave(64, -1)
    return value * wide[..., : value.shape[-1]]


def soften_peaks(x: Tensor, limit: float = 4.0) -> Tensor:
    x = x.double()
    over = x.abs() - abs(limit)
    soft = torch.copysign(abs(limit) + torch.log1p(over.clamp(min=0)), x)
    return torch.where(over > 0, soft, x)


def masked_softmax(x: Tensor, mask: Tensor) -> Tensor:
    return torch.softmax(x.double().masked_fill(~mask, -math.inf), -1)


def to_bytes(x: Tensor) -> Tensor:
    known = torch.nan_to_num(x, nan=0.0, posinf=255.0, neginf=0.0)
    return torch.round(known).clamp(0, 255).to(torch.uint8)


def add_saturating(x: Tensor, y: Tensor) -> Tensor:
    limits = torch.iinfo(x.dtype)
    return (x.long() + y.long()).clamp(limits.min, limits.max)


def unique_sorted(x: Tensor) -> tuple[Tensor, Tensor]:
    value, count = torch.unique(x, return_counts=True)
    return value, count


def nonzero_cells(x: Tensor) -> Tensor:
    return torch.nonzero(x)


def fake_quantize(x: Tensor, scale: float = 0.05, zero: int = 0) -> Tensor:
    level = (torch.round(x.double() / scale) + zero).clamp(-128, 127)
    return (level - zero) * scale


def scale_compat(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    del bias
    return x.double() * weight.double()


def _murmur(h: int) -> int:
    h = (h ^ (h >> 16)) * 0x85EBCA6B % 2**32
    h = (h ^ (h >> 13)) * 0xC2B2AE35 % 2**32
    return h ^ (h >> 16)


def drop_rows(x: Tensor, seed: int) -> Tensor:
    x = x.double()
    start = _murmur(seed % 2**32)
    kept = [_murmur((start + r) % 2**32) & 3 != 0 for r in range(x.shape[0])]
    is_kept = torch.tensor(kept, dtype=torch.bool)[:, None]
    return torch.where(is_kept, x * (4 / 3), torch.zeros_like(x))


def join_columns(x: Tensor, others: list[Tensor]) -> Tensor:
    return torch.cat([x.double()] + [o.double() for o in others], 1)


def sgd_momentum(
    param: Tensor,
    momentum: Tensor,
    step: Tensor,
    rate: float = 0.01,
    decay: float = 0.9,
) -> tuple[Tensor, Tensor]:
    speed = decay * momentum.double() + step.double()
    return param.double() - rate * speed, speed


def ring_append(ring: Tensor, x: Tensor, start: Tensor) -> Tensor:
    y = ring.double().clone()
    first = int(start[0])
    for t in range(x.shape[0]):
        y[(first + t) % ring.shape[0]] = x[t].double()
    return y


def argmax_first(x: Tensor) -> Tensor:
    return torch.sort(x, dim=-1, descending=True, stable=True).indices[..., 0]


def embed_padded(table: Tensor, index: Tensor, padding_idx: int = 0) -> Tensor:
    rows = table.double()[index.long()]
    is_padding = (index == padding_idx).unsqueeze(-1)
    return torch.where(is_padding, rows.detach(), rows)


def transpose_strided(x: Tensor) -> Tensor:
    return x.double().T


def histogram_clamped(x: Tensor, bins: int = 8) -> Tensor:
    known = x.double()[x == x].clamp(0, bins - 1)
    return torch.bincount(known.long(), minlength=bins)


def segment_means(x: Tensor, offset: Tensor) -> Tensor:
    x = x.double()
    ends = offset.tolist()
    means = [
        x[a:b].mean(0) if b > a else x.new_zeros(x.shape[1])
        for a, b in zip(ends[:-1], ends[1:])
    ]
    return torch.stack(means) if means else x.new_zeros(0, x.shape[1])


def int8_linear(
    x: Tensor, weight: Tensor, weight_scale: Tensor, x_scale: float = 1.0
) -> Tensor:
    total = x.double() @ weight.double().T
    return total * x_scale * weight_scale.double()


def vector_total(x: Tensor) -> Tensor:
    return x.double().sum()


def rms_norm_mixed(x: Tensor, weight: Tensor) -> Tensor:
    x = x.double()
    mean = (x * x).mean(-1, keepdim=True)
    return x / torch.sqrt(mean + 1e-5) * weight.double()


def lower_bound(sorted: Tensor, x: Tensor, right: bool = False) -> Tensor:
    return torch.searchsorted(sorted.contiguous(), x.contiguous(), right=right)


def sobel_columns(x: Tensor) -> Tensor:
    x = x.double()
    height, width = x.shape[-2:]
    y = torch.zeros_like(x)
    rows = torch.arange(height)
    columns = torch.arange(width)
    for a, down in ((-1, 1.0), (0, 2.0), (1, 1.0)):
        row = (rows + a).clamp(0, max(height - 1, 0))
        for b, side in ((-1, -1.0), (1, 1.0)):
            column = (columns + b).clamp(0, max(width - 1, 0))
            y = y + down * side * x[..., row, :][..., column]
    return y


def pad_mirror(x: Tensor, pad: int = 1) -> Tensor:
    length = x.shape[-1]
    place = torch.arange(-pad, length + pad).abs()
    place = torch.where(place < length, place, 2 * (length - 1) - place)
    return x.double()[..., place]


def reduce_rows(x: Tensor, mode: str = "sum") -> Tensor:
    x = x.double()
    if mode == "sum":
        return x.sum(-1)
    return x.amax(-1) if mode == "max" else x.amin(-1)


def average_given(x: Tensor, others: list[Tensor | None]) -> Tensor:
    given = [x.double()] + [o.double() for o in others if o is not None]
    return torch.stack(given).mean(0)
