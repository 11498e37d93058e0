# SPDX-License-Identifier: Apache-2.0
"""What the operators mean, in float64 and plain torch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F

TYPES = [torch.float32, torch.bfloat16, torch.float16]
# Error relative to the largest entry of a row, or of the whole result. The
# 16-bit types have no number of their own: twice what torch's own result in
# that type is off.
TOLERANCE = 1e-5


def bound(dtype: torch.dtype, own: float) -> float:
    """What an error may be, where torch's own is `own`."""
    return TOLERANCE if dtype == torch.float32 else 2 * own + TOLERANCE


def close(
    found: torch.Tensor, wanted: torch.Tensor, own: torch.Tensor
) -> None:
    """found against float64, where own is torch's result in the same type."""
    assert error(found, wanted) <= bound(found.dtype, error(own, wanted))


def error(found: torch.Tensor, wanted: torch.Tensor) -> float:
    """The largest difference, relative to the largest expected entry."""
    assert found.shape == wanted.shape, (found.shape, wanted.shape)
    if found.numel() == 0:
        return 0.0
    found, wanted = found.double(), wanted.double()
    assert bool(found.isfinite().all()), "not finite"
    top = wanted.abs().max().clamp_min(1e-20)
    return float((found - wanted).abs().max() / top)


def row_error(found: torch.Tensor, wanted: torch.Tensor) -> float:
    """The largest difference, relative to the largest entry of its row."""
    assert found.shape == wanted.shape, (found.shape, wanted.shape)
    if found.numel() == 0:
        return 0.0
    found, wanted = found.double(), wanted.double()
    assert bool(found.isfinite().all()), "not finite"
    top = wanted.abs().amax(-1).clamp_min(1e-3)
    return float(((found - wanted).abs().amax(-1) / top).max())


# --- Attention ---------------------------------------------------------------


def rope_neox(
    x: torch.Tensor, positions: torch.Tensor, theta: float, scale: float
) -> torch.Tensor:
    half = x.shape[-1] // 2
    frequency = theta ** (-torch.arange(half).double() / half) / scale
    angle = positions.double()[:, None, None] * frequency
    low, high = x[..., :half], x[..., half:]
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    return torch.cat([low * cos - high * sin, high * cos + low * sin], -1)


def alibi_slopes(heads: int) -> torch.Tensor:
    whole = 2 ** int(math.log2(heads))
    slopes = [2 ** (-8 * (i + 1) / whole) for i in range(whole)]
    slopes += [2 ** (-4 * (2 * i + 1) / whole) for i in range(heads - whole)]
    return torch.tensor(slopes).double()


@dataclass
class Batch:
    """Packed requests with everything that attention is given."""

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    qo_indptr: torch.Tensor
    kv_indptr: torch.Tensor
    masks: list[torch.Tensor] | None = None

    @property
    def flat_mask(self) -> torch.Tensor | None:
        if self.masks is None:
            return None
        return torch.cat([m.reshape(-1) for m in self.masks])


def indptr_of(lengths: list[int]) -> torch.Tensor:
    return torch.tensor([0, *lengths]).cumsum(0).to(torch.int32)


def make_batch(
    q_lens: list[int],
    kv_lens: list[int],
    heads: tuple[int, int],
    sizes: tuple[int, int],
    dtype: torch.dtype,
    masked: bool = False,
    seed: int = 0,
) -> Batch:
    g = torch.Generator().manual_seed(seed)

    def randn(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=g).to(dtype)

    masks = None
    if masked:
        masks = [
            torch.rand(a, b, generator=g) < 0.5
            for a, b in zip(q_lens, kv_lens, strict=True)
        ]
    return Batch(
        randn(sum(q_lens), heads[0], sizes[0]),
        randn(sum(kv_lens), heads[1], sizes[0]),
        randn(sum(kv_lens), heads[1], sizes[1]),
        indptr_of(q_lens),
        indptr_of(kv_lens),
        masks,
    )


def _visible(
    distance: torch.Tensor, mask: torch.Tensor | None, s: dict[str, Any]
) -> torch.Tensor:
    seen = torch.ones_like(distance, dtype=torch.bool)
    if s.get("causal"):
        seen &= distance <= 0
    if s.get("window_left", -1) >= 0:
        seen &= distance >= -s["window_left"]
    if mask is not None:
        seen &= mask
    return seen


def _request(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    mask: torch.Tensor | None,
    s: dict[str, Any],
) -> tuple[torch.Tensor, torch.Tensor]:
    group = q.shape[1] // k.shape[1]
    place = torch.arange(q.shape[0]) + k.shape[0] - q.shape[0]
    keys = torch.arange(k.shape[0])
    mode = s.get("pos_encoding_mode", "NONE")
    if mode == "ROPE_LLAMA":
        settings = (s.get("rope_theta", 1e4), s.get("rope_scale", 1.0))
        q = rope_neox(q, place, *settings)
        k = rope_neox(k, keys, *settings)
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    logits = torch.einsum("qhd,khd->hqk", q, k)
    logits = logits * s.get("sm_scale", q.shape[-1] ** -0.5)
    distance = keys[None] - place[:, None]
    if mode == "ALIBI":
        logits = logits + alibi_slopes(q.shape[1])[:, None, None] * distance
    cap = s.get("logits_soft_cap", 0.0)
    if cap:
        logits = cap * torch.tanh(logits / cap)
    seen = _visible(distance, mask, s)
    logits = logits.masked_fill(~seen, -math.inf)
    lse = torch.logsumexp(logits, -1)
    weights = torch.exp(logits - lse[..., None]).nan_to_num(0)
    return torch.einsum("hqk,khd->qhd", weights, v), lse.T


def _own_request(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    mask: torch.Tensor | None,
    s: dict[str, Any],
    is_plain: bool,
) -> torch.Tensor:
    """As a torch user writes it, in the type of q; 0 where a row sees none."""
    place = torch.arange(q.shape[0]) + k.shape[0] - q.shape[0]
    keys = torch.arange(k.shape[0])
    mode = s.get("pos_encoding_mode", "NONE")
    if mode == "ROPE_LLAMA":
        settings = (s.get("rope_theta", 1e4), s.get("rope_scale", 1.0))
        q = rope_neox(q, place, *settings).to(q.dtype)
        k = rope_neox(k, keys, *settings).to(k.dtype)
    distance = keys[None] - place[:, None]
    seen = _visible(distance, mask, s)
    scale = s.get("sm_scale", q.shape[-1] ** -0.5)
    bias = torch.zeros(q.shape[1], *seen.shape, dtype=q.dtype)
    if mode == "ALIBI":
        slopes = alibi_slopes(q.shape[1])[:, None, None]
        bias = (slopes * distance).to(q.dtype)
    bias = bias.masked_fill(~seen, -math.inf)
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    q, k, v = (t.transpose(0, 1) for t in (q, k, v))
    cap = s.get("logits_soft_cap", 0.0)
    if cap or is_plain:
        logits = (q @ k.transpose(1, 2)) * scale + bias.nan_to_num(neginf=0)
        if cap:
            logits = cap * torch.tanh(logits / cap)
        logits = logits.masked_fill(~seen, -math.inf)
        out = torch.softmax(logits, -1) @ v
    else:
        out = F.scaled_dot_product_attention(
            q[None], k[None], v[None], attn_mask=bias[None], scale=scale)[0]
    empty = ~seen.any(1)
    return out.transpose(0, 1).masked_fill(empty[:, None, None], 0)


def attention_by_torch(
    batch: Batch, is_plain: bool = False, **settings: Any
) -> torch.Tensor:
    """Every request's output by torch, in the batch's own type: by SDPA where
    it can, or by plain operators."""
    q, k, v = batch.q, batch.k, batch.v
    qi, ki = batch.qo_indptr.tolist(), batch.kv_indptr.tolist()
    return torch.cat([
        _own_request(
            q[qi[i]:qi[i + 1]], k[ki[i]:ki[i + 1]], v[ki[i]:ki[i + 1]],
            batch.masks[i] if batch.masks is not None else None, settings,
            is_plain)
        for i in range(len(qi) - 1)
    ])


def attention(
    batch: Batch, **settings: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    """Output and LSE (base 2) of every request; rows in order."""
    outs, sums = [], []
    q, k, v = batch.q.double(), batch.k.double(), batch.v.double()
    qi, ki = batch.qo_indptr.tolist(), batch.kv_indptr.tolist()
    for i in range(len(qi) - 1):
        mask = batch.masks[i] if batch.masks is not None else None
        out, lse = _request(
            q[qi[i]:qi[i + 1]], k[ki[i]:ki[i + 1]], v[ki[i]:ki[i + 1]],
            mask, settings,
        )
        outs.append(out)
        sums.append(lse / math.log(2))
    return torch.cat(outs), torch.cat(sums)


# --- The small operators -----------------------------------------------------


def rms_norm(
    x: torch.Tensor, weight: torch.Tensor, eps: float
) -> torch.Tensor:
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + eps) * weight


def halves(activation: Any) -> Any:
    def run(x: torch.Tensor) -> torch.Tensor:
        gate, up = x.chunk(2, -1)
        return activation(gate) * up

    return run


def swigluoai(
    x: torch.Tensor, alpha: float = 1.702, limit: float = 7.0
) -> torch.Tensor:
    # Not clamp, whose gradient at a bound is 1 before torch 2.14 and 0 since.
    gate, up = x[..., ::2], x[..., 1::2]
    most = torch.full((), limit, dtype=x.dtype)
    gate = torch.where(gate > most, most, gate)
    up = torch.where(up > most, most, torch.where(up < -most, -most, up))
    return gate * torch.sigmoid(alpha * gate) * (up + 1)


GATED = {
    "silu_and_mul": halves(F.silu),
    "gelu_and_mul": halves(F.gelu),
    "gelu_tanh_and_mul": halves(lambda x: F.gelu(x, approximate="tanh")),
    "swigluoai_and_mul": swigluoai,
}


def rope_frequencies(
    rotary: int, theta: float, scale: float, llama: bool = False
) -> torch.Tensor:
    frequency = theta ** (-torch.arange(0, rotary, 2).double() / rotary)
    if not llama:
        return frequency / scale
    smooth = ((8192 * frequency / (2 * math.pi) - 1) / 3).clamp(0, 1)
    return (1 - smooth) * frequency / scale + smooth * frequency


def rope(
    x: torch.Tensor, angle: torch.Tensor, interleave: bool,
    dtype: torch.dtype = torch.float64,
) -> torch.Tensor:
    """Rotates the first 2 * angle.shape[-1] entries of each head."""
    rotary = 2 * angle.shape[-1]
    cos, sin = (t[:, None].to(dtype) for t in (angle.cos(), angle.sin()))
    x = x.to(dtype)
    y = x.clone()
    if interleave:
        a, b = x[..., 0:rotary:2], x[..., 1:rotary:2]
        y[..., 0:rotary:2], y[..., 1:rotary:2] = (
            a * cos - b * sin, b * cos + a * sin)
    else:
        a = x[..., :rotary // 2]
        b = x[..., rotary // 2:rotary]
        y[..., :rotary // 2] = a * cos - b * sin
        y[..., rotary // 2:rotary] = b * cos + a * sin
    return y


def moe(
    x: torch.Tensor,
    w13: torch.Tensor,
    w2: torch.Tensor,
    weights: torch.Tensor,
    ids: torch.Tensor,
    b13: torch.Tensor | None,
    b2: torch.Tensor | None,
    activation: str,
    dtype: torch.dtype = torch.float64,
) -> torch.Tensor:
    name = {"silu": "silu_and_mul", "gelu": "gelu_and_mul",
            "gelu_tanh": "gelu_tanh_and_mul",
            "swigluoai": "swigluoai_and_mul"}[activation]
    y = torch.zeros(x.shape, dtype=dtype)
    x, w13, w2 = x.to(dtype), w13.to(dtype), w2.to(dtype)
    for token in range(x.shape[0]):
        for slot, expert in enumerate(ids[token].tolist()):
            if expert < 0:
                continue
            h = w13[expert] @ x[token]
            if b13 is not None:
                h = h + b13[expert].to(dtype)
            out = w2[expert] @ GATED[name](h)
            if b2 is not None:
                out = out + b2[expert].to(dtype)
            y[token] += weights[token, slot].to(dtype) * out
    return y
