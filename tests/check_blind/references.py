# SPDX-License-Identifier: Apache-2.0
"""What the operators of wrong/ should compute, in float64.

Each function has the name of its operator and takes its arguments in the order
of the schema. An operator that writes arguments returns their new values in
the order of the schema, then its fresh results. A result is float64 whatever
the operator's type is; integers are exact. Where a tie of a rounding decides,
the arithmetic is that of the type of the argument.
"""

from __future__ import annotations

import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor


def _flat(x: Tensor, dims: int) -> Tensor:
    """x with all but its last dims in one."""
    shape = x.shape[x.dim() - dims :]
    return x.reshape(math.prod(x.shape[: x.dim() - dims]), *shape)


# --- Wrong: values


def rms_norm_wide(x: Tensor, weight: Tensor, eps: float = 1e-6) -> Tensor:
    x = x.double()
    mean = (x * x).mean(-1, keepdim=True)
    return x / torch.sqrt(mean + eps) * weight.double()


def linear_unrolled(
    x: Tensor, weight: Tensor, bias: Tensor | None = None
) -> Tensor:
    y = x.double() @ weight.double().T
    return y if bias is None else y + bias.double()


def cumsum_two_level(x: Tensor) -> Tensor:
    return x.double().cumsum(-1)


def embedding_bag_mean(
    table: Tensor, index: Tensor, padding_idx: int = -1
) -> Tensor:
    kept = (index != padding_idx).double().unsqueeze(-1)
    rows = table.double()[index.long()]
    return (rows * kept).sum(1) / kept.sum(1).clamp(min=1)


def layer_norm_affine(
    x: Tensor, weight: Tensor, bias: Tensor, eps: float = 1e-5
) -> Tensor:
    x = x.double()
    centered = x - x.mean(-1, keepdim=True)
    variance = (centered * centered).mean(-1, keepdim=True)
    y = centered / torch.sqrt(variance + eps)
    return y * weight.double() + bias.double()


def conv_same_strided(x: Tensor, weight: Tensor, stride: int = 1) -> Tensor:
    length, taps = x.shape[-1], weight.shape[-1]
    places = -(-length // stride)
    padding = max((places - 1) * stride + taps - length, 0)
    left = padding // 2
    # The last zeros are for an empty line; no window reads them.
    padded = F.pad(x.double(), (left, padding - left + stride))
    windows = padded.unfold(-1, taps, stride)[..., :places, :]
    return (windows * weight.double().unsqueeze(-2)).sum(-1)


def avg_pool_border(x: Tensor, kernel: int = 3, padding: int = 1) -> Tensor:
    def total(plane: Tensor) -> Tensor:
        padded = F.pad(plane, (padding, padding, padding, padding))
        windows = padded.unfold(-2, kernel, 1).unfold(-2, kernel, 1)
        return windows.sum((-1, -2))

    x = x.double()
    return total(x) / total(torch.ones_like(x))


def quantize_rows(x: Tensor) -> tuple[Tensor, Tensor]:
    top = x.abs().amax(-1) if x.shape[-1] else x.new_zeros(x.shape[:-1])
    scale = torch.where(top > 0, top / 127, torch.ones_like(top))
    q = torch.round(x / scale.unsqueeze(-1))
    return q.clamp(-127, 127).to(torch.int8), scale


def rope_half(x: Tensor, position: Tensor, base: float = 10000.0) -> Tensor:
    x = x.double()
    half = x.shape[-1] // 2
    exponent = -2 * torch.arange(half, dtype=torch.float64) / (2 * half)
    angle = position.double().unsqueeze(-1) * torch.pow(base, exponent)
    cosine, sine = angle.cos().unsqueeze(1), angle.sin().unsqueeze(1)
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * cosine - b * sine, b * cosine + a * sine], -1)


def cross_entropy_smooth(
    logits: Tensor, target: Tensor, smoothing: float = 0.1
) -> Tensor:
    loss = -torch.log_softmax(logits.double(), -1)
    picked = loss.gather(1, target.long().unsqueeze(1)).squeeze(1)
    return (1 - smoothing) * picked + smoothing * loss.mean(-1)


def batch_norm_train(
    x: Tensor,
    running_mean: Tensor,
    running_var: Tensor,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> tuple[Tensor, Tensor, Tensor]:
    x = x.double()
    mean = x.mean((0, 2))
    variance = x.var((0, 2), correction=0)
    count = x.shape[0] * x.shape[2]
    y = (x - mean[:, None]) / torch.sqrt(variance[:, None] + eps)
    old_mean, old_variance = running_mean.double(), running_var.double()
    unbiased = variance * count / (count - 1)
    return (
        old_mean + momentum * (mean - old_mean),
        old_variance + momentum * (unbiased - old_variance),
        y,
    )


def decode_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    q, k, v = q.double(), k.double(), v.double()
    score = (k @ q.unsqueeze(-1)).squeeze(-1) / math.sqrt(q.shape[-1])
    weight = torch.softmax(score, -1).unsqueeze(-2)
    return (weight @ v).squeeze(-2)


def top_k_ordered(x: Tensor, k: int = 1) -> tuple[Tensor, Tensor]:
    value, index = torch.sort(x, dim=-1, descending=True, stable=True)
    return value[..., :k], index[..., :k]


def pixel_shuffle(x: Tensor, r: int = 2) -> Tensor:
    flat = _flat(x.double(), 3)
    n, c, h, w = flat.shape
    cells = flat.reshape(n, c // (r * r), r, r, h, w)
    y = cells.permute(0, 1, 4, 2, 5, 3)
    return y.reshape(*x.shape[:-3], c // (r * r), h * r, w * r)


def upsample_linear(x: Tensor, size: int) -> Tensor:
    x = x.double()
    length = x.shape[-1]
    place = torch.arange(size, dtype=torch.float64)
    at = ((place + 0.5) * length / size - 0.5).clamp(0, length - 1)
    low = at.floor().long()
    high = (low + 1).clamp(max=length - 1)
    part = at - low
    return x[..., low] * (1 - part) + x[..., high] * part


def histogram_range(
    x: Tensor, bins: int = 10, low: float = 0.0, high: float = 1.0
) -> Tensor:
    # In the argument's type: rounding decides between two bins.
    first, last = x.new_tensor(low), x.new_tensor(high)
    inside = x[(x >= first) & (x <= last)]
    place = (inside - first) / (last - first) * bins
    return torch.bincount(place.long().clamp(max=bins - 1), minlength=bins)


def segment_sum_rows(x: Tensor, segment: Tensor, count: int) -> Tensor:
    x = x.double()
    y = x.new_zeros(count, x.shape[1])
    return y.index_add(0, segment.long(), x)


def huber_loss(x: Tensor, y: Tensor, delta: float = 1.0) -> Tensor:
    d = (x.double() - y.double()).abs()
    return torch.where(d <= delta, 0.5 * d * d, delta * (d - 0.5 * delta))


def logsumexp_online(x: Tensor) -> Tensor:
    return torch.logsumexp(x.double(), -1)


def local_attention(q: Tensor, k: Tensor, v: Tensor, window: int = 4) -> Tensor:
    q, k, v = q.double(), k.double(), v.double()
    place = torch.arange(q.shape[0])
    far = place[:, None] - place[None, :]
    hidden = (far < 0) | (far > window)
    score = (q @ k.T).masked_fill(hidden, -math.inf)
    return torch.softmax(score, -1) @ v


def _splitmix(seed: int, count: int) -> np.ndarray:
    with np.errstate(over="ignore"):
        place = np.arange(1, count + 1, dtype=np.uint64)
        z = np.uint64(seed % 2**64) + place * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
    return (z >> np.uint64(11)).astype(np.float64) * 2.0**-53


def dropout_seeded(x: Tensor, seed: int, p: float = 0.5) -> Tensor:
    x = x.double()
    is_kept = torch.from_numpy(_splitmix(seed, x.numel()) >= p)
    if not bool(is_kept.any()):
        return x * 0
    return torch.where(is_kept, x / (1 - p), torch.zeros_like(x))


def dequantize_int4(packed: Tensor, scale: Tensor) -> Tensor:
    code = torch.stack([packed & 15, packed >> 4], -1).flatten(-2)
    group = code.shape[-1] // scale.shape[-1]
    return (code.double() - 8) * scale.double().repeat_interleave(group, -1)


def matmul_packed(a: Tensor, b: Tensor) -> Tensor:
    return a.double() @ b.double()


def median_lower(x: Tensor) -> Tensor:
    return x.double().sort(-1).values[..., (x.shape[-1] - 1) // 2]


def variance_chunks(x: Tensor) -> Tensor:
    return x.double().var(-1, correction=0)


def mean_tree(x: Tensor) -> Tensor:
    return x.double().mean(-1)


# --- Wrong: types


def row_sum_narrow(x: Tensor) -> Tensor:
    return x.double().sum(-1)


def int8_matmul(a: Tensor, b: Tensor) -> Tensor:
    return a.long() @ b.long().T


def dequantize_u8(q: Tensor, scale: Tensor, zero: Tensor) -> Tensor:
    return (q.double() - zero.double()) * scale.double()


def rms_norm_half(x: Tensor, eps: float = 1e-6) -> Tensor:
    x = x.double()
    return x / torch.sqrt((x * x).mean(-1, keepdim=True) + eps)


def floor_shift(x: Tensor, divisor: int = 2, offset: int = 0) -> Tensor:
    return torch.div(x.long(), divisor, rounding_mode="floor") + offset


def requantize(sum: Tensor, scale: Tensor) -> Tensor:
    y = torch.round(sum.float() * scale)
    return y.clamp(-128, 127).to(torch.int8)


def count_weighted(count: Tensor, price: Tensor) -> Tensor:
    return (count.long() * price.long()).sum(-1)


def row_range(x: Tensor) -> Tensor:
    wide = x.double() if x.is_floating_point() else x
    return wide.amax(-1) - wide.amin(-1)


def scale_shift_bf16(x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    return x.double() * scale.double() + shift.double()


def blend_u8(x: Tensor, y: Tensor, alpha: int = 128) -> Tensor:
    mixed = x.long() * alpha + y.long() * (255 - alpha)
    return (2 * mixed + 255) // 510


# --- Wrong: ignored arguments


def pad_constant(x: Tensor, pad: list[int], value: float = 0.0) -> Tensor:
    return F.pad(x.double(), (pad[0], pad[1]), value=value)


def roll_plane(x: Tensor, shifts: list[int]) -> Tensor:
    return torch.roll(x.double(), (shifts[0], shifts[1]), (-2, -1))


def linear_columns(
    x: Tensor, weight: Tensor, bias: Tensor | None = None
) -> Tensor:
    y = x.double() @ weight.double()
    return y if bias is None else y + bias.double()


def weighted_square_error(x: Tensor, y: Tensor, weight: Tensor) -> Tensor:
    d = x.double() - y.double()
    return (weight.double() * d * d).sum(-1)


def softmax_temperature(x: Tensor, temperature: float = 1.0) -> Tensor:
    return torch.softmax(x.double() / temperature, -1)


def avg_pool_stride(x: Tensor, kernel: int = 2, stride: int = 2) -> Tensor:
    return x.double().unfold(-1, kernel, stride).mean(-1)


def masked_mean(x: Tensor, mask: Tensor) -> Tensor:
    kept = mask.double().unsqueeze(-1)
    return (x.double() * kept).sum(1) / kept.sum(1).clamp(min=1)


def route_experts(
    logits: Tensor, k: int = 2, renormalize: bool = True
) -> tuple[Tensor, Tensor]:
    order = torch.sort(logits, dim=-1, descending=True, stable=True).indices
    index = order[..., :k]
    weight = torch.softmax(logits.double(), -1).gather(-1, index)
    if renormalize:
        weight = weight / weight.sum(-1, keepdim=True)
    return weight, index


def cumprod_axis(x: Tensor, dim: int = -1) -> Tensor:
    return x.double().cumprod(dim)


# --- Wrong: state


def rope_table(x: Tensor, base: float = 10000.0) -> Tensor:
    x = x.double()
    half = x.shape[1] // 2
    exponent = -torch.arange(half, dtype=torch.float64) / half
    place = torch.arange(x.shape[0], dtype=torch.float64)
    angle = place.unsqueeze(1) * torch.pow(base, exponent)
    cosine, sine = angle.cos(), angle.sin()
    a, b = x[:, 0::2], x[:, 1::2]
    pairs = [a * cosine - b * sine, b * cosine + a * sine]
    return torch.stack(pairs, -1).flatten(1)


def histogram_rows(x: Tensor) -> Tensor:
    rows = x.reshape(math.prod(x.shape[:-1]), x.shape[-1]).long()
    count = torch.zeros(rows.shape[0], 256, dtype=torch.int64)
    count.scatter_add_(1, rows, torch.ones_like(rows))
    return count.reshape(*x.shape[:-1], 256)


def gelu_either(x: Tensor, approximate: bool = False) -> Tensor:
    return F.gelu(x.double(), approximate="tanh" if approximate else "none")


def square_total(x: Tensor) -> Tensor:
    return (x.double() ** 2).sum()


def cumulative_max(x: Tensor) -> Tensor:
    return x.double().cummax(0).values


def unpool_rows(x: Tensor, index: Tensor, length: int) -> Tensor:
    x = x.double()
    y = x.new_zeros(*x.shape[:-1], length)
    return y.scatter_add(-1, index.long(), x)


def trimmed_mean(x: Tensor, cut: int = 1) -> Tensor:
    ordered = x.double().sort(-1).values
    return ordered[..., cut : x.shape[-1] - cut].mean(-1)


def linear_prepacked(x: Tensor, weight: Tensor) -> Tensor:
    return x.double() @ weight.double().T


def count_distinct(x: Tensor) -> Tensor:
    ordered = x.sort(-1).values
    changes = (ordered[..., 1:] != ordered[..., :-1]).sum(-1)
    return changes + (1 if x.shape[-1] else 0)


def fake_quantize_range(x: Tensor) -> Tensor:
    top = x.abs().amax() if x.numel() else x.new_zeros(())
    scale = torch.where(top > 0, top / 127, torch.ones_like(top))
    return torch.round(x / scale) * scale


def tanh_lookup(x: Tensor) -> Tensor:
    return torch.tanh(x.double())


def resample_line(x: Tensor, size: int = 16) -> Tensor:
    x = x.double()
    length = x.shape[-1]
    step = (length - 1) / (size - 1) if size > 1 else 0.0
    at = torch.arange(size, dtype=torch.float64) * step
    low = at.floor().long().clamp(max=length - 1)
    high = (low + 1).clamp(max=length - 1)
    return x[..., low] + (at - low) * (x[..., high] - x[..., low])


def scale_to_unit(x: Tensor) -> Tensor:
    x = x.double()
    top = x.abs().amax() if x.numel() else x.new_ones(())
    return torch.where(top > 0, x / top, torch.zeros_like(x))


# --- Wrong: memory


def affine_rows(x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    return x.double() * scale.double()[:, None] + shift.double()[:, None]


def class_weights(label: Tensor, weight: Tensor, classes: int = 4) -> Tensor:
    total = weight.double().new_zeros(classes)
    return total.index_add(0, label.long(), weight.double())


def transpose_tiles(x: Tensor) -> Tensor:
    return x.double().transpose(-1, -2)


def conv_valid(x: Tensor, weight: Tensor, dilation: int = 1) -> Tensor:
    x, weight = x.double(), weight.double()
    places = x.shape[-1] - dilation * (weight.shape[0] - 1)
    y = x.new_zeros(*x.shape[:-1], places)
    for k in range(weight.shape[0]):
        y = y + weight[k] * x[..., k * dilation : k * dilation + places]
    return y


def rank_rows(x: Tensor) -> Tensor:
    order = torch.sort(x, dim=-1, stable=True).indices
    place = torch.arange(x.shape[-1]).expand_as(order)
    return torch.empty_like(order).scatter(-1, order, place)


def sign_bits(x: Tensor) -> np.ndarray:
    return np.packbits(x.numpy(), bitorder="little")


def run_lengths(x: Tensor) -> tuple[Tensor, Tensor]:
    value, length = torch.unique_consecutive(x, return_counts=True)
    return value, length


def offsets_of(length: Tensor) -> Tensor:
    return length.long().cumsum(0) - length.long()


def above_bits(x: Tensor, limit: float = 0.0) -> np.ndarray:
    return np.packbits(x.numpy() > np.float32(limit), bitorder="little")


def resize_nearest(x: Tensor, size: int) -> Tensor:
    return x[..., torch.arange(size) * x.shape[-1] // size]


def sorted_rows(x: Tensor) -> Tensor:
    return x.double().sort(-1).values


# --- Wrong: gradients


def silu(x: Tensor) -> Tensor:
    return F.silu(x.double())


def standardize(x: Tensor, eps: float = 1e-3) -> Tensor:
    x = x.double()
    variance = x.var(-1, correction=0, keepdim=True)
    return (x - x.mean(-1, keepdim=True)) / torch.sqrt(variance + eps)


def bias_channels(x: Tensor, bias: Tensor) -> Tensor:
    return x.double() + bias.double()[:, None]


def soft_cap(x: Tensor, cap: float = 30.0) -> Tensor:
    return cap * torch.tanh(x.double() / cap)


def square_error(x: Tensor, y: Tensor) -> Tensor:
    return ((x.double() - y.double()) ** 2).mean(-1)


def elu(x: Tensor, alpha: float = 1.0) -> Tensor:
    x = x.double()
    return torch.where(x > 0, x, alpha * torch.expm1(x.clamp(max=0)))


def take_rows(table: Tensor, index: Tensor) -> Tensor:
    return table.double()[index.long()]


def discounted_sum(x: Tensor, decay: float = 0.9) -> Tensor:
    x = x.double()
    state = torch.zeros_like(x[..., 0]) if x.shape[-1] else x
    steps = []
    for t in range(x.shape[-1]):
        state = x[..., t] + decay * state
        steps.append(state)
    return torch.stack(steps, -1) if steps else x


def log_softmax(x: Tensor) -> Tensor:
    return torch.log_softmax(x.double(), -1)


def causal_conv(x: Tensor, weight: Tensor) -> Tensor:
    x, weight = x.double(), weight.double()
    length = x.shape[1]
    y = torch.zeros_like(x)
    for k in range(min(weight.shape[0], length)):
        late = F.pad(x[:, : length - k], (0, 0, k, 0))
        y = y + weight[k] * late
    return y


def unit_rows(x: Tensor) -> tuple[Tensor, Tensor]:
    x = x.double()
    scale = torch.rsqrt((x * x).mean(-1) + 1e-3)
    return x * scale.unsqueeze(-1), scale


def prelu(x: Tensor, slope: Tensor) -> Tensor:
    x = x.double()
    return torch.where(x >= 0, x, slope.double() * x)


def reglu(x: Tensor) -> Tensor:
    gate, up = x.double().chunk(2, -1) if x.shape[-1] else (x, x)
    return torch.relu(gate) * up


def attention_scores(q: Tensor, k: Tensor, scale: float = 0.125) -> Tensor:
    return scale * (q.double() @ k.double().transpose(1, 2))


def cubed_relu(x: Tensor) -> Tensor:
    return torch.relu(x.double()) ** 3


def hard_swish(x: Tensor) -> Tensor:
    x = x.double()
    return x * (x + 3).clamp(0, 6) / 6


# --- Wrong: layouts


def square_plus(x: Tensor, b: float = 4.0) -> Tensor:
    x = x.double()
    return (x + torch.sqrt(x * x + b)) / 2


def flip_rows(x: Tensor) -> Tensor:
    return x.flip(-1)


def pre_emphasis(x: Tensor, factor: float = 0.97) -> Tensor:
    x = x.double()
    return torch.cat([x[..., :1], x[..., 1:] - factor * x[..., :-1]], -1)


def l1_rows(x: Tensor) -> Tensor:
    x = x.double()
    total = x.abs().sum(-1, keepdim=True)
    return torch.where(total > 0, x / total, torch.zeros_like(x))


def add_scaled(x: Tensor, y: Tensor, alpha: float = 1.0) -> Tensor:
    return x.double() + alpha * y.double()


def relu_squared(x: Tensor) -> Tensor:
    return torch.relu(x.double()) ** 2


def rank_one_update(
    a: Tensor, u: Tensor, v: Tensor, alpha: float = 1.0
) -> Tensor:
    return a.double() + alpha * torch.outer(u.double(), v.double())


# --- Wrong: indices


def position_bias(score: Tensor, bucket: Tensor, table: Tensor) -> Tensor:
    return score.double() + table.double()[bucket.long()]


def embed_tokens(table: Tensor, token: Tensor) -> Tensor:
    return table.double()[token.long()] * math.sqrt(table.shape[1])


def cache_append(cache: Tensor, key: Tensor, slot: Tensor) -> Tensor:
    y = cache.double().clone()
    for t, s in enumerate(slot.tolist()):
        if s >= 0:
            y[s] = key[t].double()
    return y


def pick_each(x: Tensor, index: Tensor) -> Tensor:
    return x.double().gather(-1, index.long())


def one_hot(number: Tensor, classes: int = 10) -> Tensor:
    return F.one_hot(number.long(), classes).double()


def pick_cells(x: Tensor, row: Tensor, column: Tensor) -> Tensor:
    return x.double()[row.long(), column.long()]


# --- Wrong: rules


def center(x: Tensor) -> Tensor:
    x = x.double()
    return x - x.mean(-1, keepdim=True)


def argmin_rows(x: Tensor) -> Tensor:
    return torch.sort(x, dim=-1, stable=True).indices[..., 0]


def keep_finite(x: Tensor) -> Tensor:
    return x.double()[torch.isfinite(x)]


def vector_dot(x: Tensor, y: Tensor) -> Tensor:
    return (x.double() * y.double()).sum()


def matmul_plain(a: Tensor, b: Tensor) -> Tensor:
    return a.double() @ b.double()


def lerp_weight(x: Tensor, y: Tensor, weight: Tensor) -> Tensor:
    x = x.double()
    return x + weight.double() * (y.double() - x)


def column_mean(x: Tensor) -> Tensor:
    return x.double().mean(0)
