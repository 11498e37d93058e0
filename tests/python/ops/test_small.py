# SPDX-License-Identifier: Apache-2.0
"""The small operators against float64 and plain torch."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import oracle
import pytest
import torch
import torch.nn.functional as F
from oracle import TYPES

SHAPES = [(1, 111), (19, 500), (3, 1024), (0, 64), (2, 3, 40), (7, 3)]


Triple = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def gradients(
    call: Any, wanted: Any, inputs: list[torch.Tensor], own: Any = None
) -> list[Triple]:
    """(found, in float64, torch's own): the result, then the gradient of each
    input. torch's own is the same formula in the type of the inputs."""
    low = [x.detach().clone().requires_grad_() for x in inputs]
    high = [x.detach().double().requires_grad_() for x in inputs]
    same = [x.detach().clone().requires_grad_() for x in inputs]
    results = call(*low), wanted(*high), (own or wanted)(*same)
    grad = torch.randn(results[1].shape,
                       generator=torch.Generator().manual_seed(5))
    grad = grad.to(inputs[0].dtype)
    for result in results:
        result.backward(grad.to(result.dtype))
    triples = [tuple(r.detach() for r in results)]
    for a, b, c in zip(low, high, same, strict=True):
        assert a.grad is not None and b.grad is not None
        assert c.grad is not None
        triples.append((a.grad, b.grad, c.grad))
    return triples


def close(triples: list[Triple]) -> None:
    for found, wanted, own in triples:
        oracle.close(found, wanted, own)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_norms(
    ops: Any, covers: Any, dtype: torch.dtype, shape: tuple[int, ...]
) -> None:
    x = (torch.randn(shape) * 2 + 1).to(dtype)
    w, b = torch.randn(2, shape[-1]).to(dtype)
    close(gradients(
        lambda x, w: ops.rms_norm(x, w, 1e-5),
        lambda x, w: oracle.rms_norm(x, w, 1e-5), [x, w]))
    close(gradients(
        lambda x, w, b: ops.layer_norm(x, w, b),
        lambda x, w, b: F.layer_norm(x, x.shape[-1:], w, b), [x, w, b]))
    close([(ops.layer_norm(x), F.layer_norm(x.double(), x.shape[-1:]),
            F.layer_norm(x, x.shape[-1:]))])
    close(gradients(
        lambda x, w: ops.gemma_rms_norm(x, w),
        lambda x, w: oracle.rms_norm(x, w + 1, 1e-6), [x, w]))
    covers("rms_norm", dtype, "gradient")
    covers("layer_norm", dtype, "gradient")
    covers("gemma_rms_norm", dtype, "gradient")


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name, offset", [("fused_add_rms_norm", 0),
                                          ("gemma_fused_add_rms_norm", 1)])
def test_fused_add(
    ops: Any, covers: Any, dtype: torch.dtype, name: str, offset: int
) -> None:
    x, residual = torch.randn(2, 5, 300).to(dtype)
    w = torch.randn(300).to(dtype)
    total = (x.double() + residual.double()).to(dtype)
    back = getattr(ops, name)(x, residual, w)
    assert back[0] is x and back[1] is residual
    assert torch.equal(residual, total)
    wanted = oracle.rms_norm(total.double(), w.double() + offset, 1e-6)
    close([(x, wanted, oracle.rms_norm(total, w + offset, 1e-6))])
    covers(name, dtype, "in place")


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", oracle.GATED)
@pytest.mark.parametrize("width", [1, 128, 2050, 4111])
def test_gated(
    ops: Any, covers: Any, dtype: torch.dtype, name: str, width: int
) -> None:
    x = (torch.randn(3, 2 * width) * 4).to(dtype)
    close(gradients(getattr(ops, name), oracle.GATED[name], [x]))
    covers(name, dtype, "gradient")


def test_gated_extremes(ops: Any) -> None:
    x = torch.tensor([[-1e30, 1e30, -200.0, 200.0, math.nan, 0.0,
                       1, 1, 1, 1, 1, 1]])
    y = ops.silu_and_mul(x)[0]
    assert y[0] == 0 and y[1] == 1e30 and abs(y[2]) < 1e-30
    assert y[3] == 200 and y[4].isnan() and y[5] == 0


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("interleave", [False, True])
@pytest.mark.parametrize("rotary", [None, 24])
@pytest.mark.parametrize("llama", [False, True])
def test_rope(
    ops: Any, covers: Any, dtype: torch.dtype, interleave: bool,
    rotary: int | None, llama: bool
) -> None:
    q, k = torch.randn(5, 4, 96).to(dtype), torch.randn(5, 2, 96).to(dtype)
    positions = torch.tensor([0, 15, 99, 100000, 4095],
                             dtype=torch.int32 if llama else torch.int64)
    theta, scale = (5e5, 8.0) if llama else (1e4, 2.0)
    frequency = oracle.rope_frequencies(rotary or 96, theta, scale, llama)
    angle = positions.double()[:, None] * frequency
    settings = dict(rotary_dim=rotary, interleave=interleave,
                    rope_scale=scale, rope_theta=theta,
                    old_context_len=8192 if llama else 0)
    close(gradients(
        lambda q, k: torch.cat(ops.apply_rope(q, k, positions, **settings), 1),
        lambda q, k: torch.cat(
            [oracle.rope(q, angle, interleave),
             oracle.rope(k, angle, interleave)], 1), [q, k],
        own=lambda q, k: torch.cat(
            [oracle.rope(q, angle, interleave, dtype),
             oracle.rope(k, angle, interleave, dtype)], 1)))
    for operator in ("apply_rope", "apply_rope_inplace"):
        covers(operator, dtype, "partial, interleaved, Llama 3.1")
    wanted = oracle.rope(q, angle, interleave)
    own = oracle.rope(q, angle, interleave, dtype)
    back = ops.apply_rope_inplace(q, k, positions, **settings)
    assert back[0] is q
    close([(q, wanted, own)])


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("is_neox", [False, True])
def test_rope_table(
    ops: Any, covers: Any, dtype: torch.dtype, is_neox: bool
) -> None:
    qkv = torch.randn(4, 8, 64).to(dtype)
    q, k, _ = qkv.split([4, 2, 2], 1)  # views, rotated where they lie
    frequency = oracle.rope_frequencies(48, 1e4, 1.0)
    all_angles = torch.arange(50).double()[:, None] * frequency
    table = torch.cat([all_angles.cos(), all_angles.sin()], -1).float()
    positions = torch.tensor([49, 0, 7, 7])
    wanted = oracle.rope(q, all_angles[positions], not is_neox)
    own = oracle.rope(q, all_angles[positions], not is_neox, dtype)
    y, _ = ops.apply_rope_with_cos_sin_cache(
        q, k, positions, table, is_neox=is_neox)
    close([(y, wanted, own)])
    ops.apply_rope_with_cos_sin_cache_inplace(
        q, k, positions, table, is_neox=is_neox)
    assert torch.equal(qkv[:, :4], y)
    with pytest.raises(RuntimeError, match=r"positions\[1\] is 50"):
        ops.apply_rope_with_cos_sin_cache(
            q[:2], k[:2], torch.tensor([0, 50]), table)
    for suffix in ("", "_inplace"):
        covers("apply_rope_with_cos_sin_cache" + suffix, dtype, "views")


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("experts, topk", [(8, 2), (67, 5), (1, 1), (256, 8)])
def test_topk_softmax(
    ops: Any, covers: Any, dtype: torch.dtype, experts: int, topk: int
) -> None:
    x = torch.randn(33, experts).to(dtype)
    weights, ids = ops.topk_softmax(x, topk)
    p = x.double().softmax(-1)
    values, _ = p.topk(topk)
    assert oracle.error(weights, values) <= 1e-5
    assert oracle.error(p.gather(1, ids.long()), values) <= 1e-6
    assert all(len(set(row)) == topk for row in ids.tolist())
    weights, _ = ops.topk_softmax(x, topk, True)
    assert float((weights.sum(-1) - 1).abs().max()) < 1e-5
    covers("topk_softmax", dtype, "experts, renormalised")


@pytest.mark.parametrize("order", ["big", "little"])
def test_packbits(ops: Any, covers: Any, order: str) -> None:
    bits = torch.rand(1003) < 0.5
    indptr = torch.tensor([0, 10, 10, 500, 1003], dtype=torch.int32)
    found = ops.packbits(bits, bitorder=order).numpy()
    assert (found == np.packbits(bits.numpy(), bitorder=order)).all()
    packed, starts = ops.segment_packbits(bits, indptr, bitorder=order)
    pieces = [np.packbits(bits[a:b].numpy(), bitorder=order)
              for a, b in zip(indptr[:-1], indptr[1:], strict=True)]
    assert (packed.numpy() == np.concatenate(pieces)).all()
    assert starts.tolist() == np.cumsum([0, *map(len, pieces)]).tolist()
    bad = torch.tensor([0, 10, 5], dtype=torch.int32)
    with pytest.raises(RuntimeError, match=r"input_indptr\[2\] is 5"):
        ops.segment_packbits(bits, bad)
    covers("packbits", torch.bool, "orders")
    covers("segment_packbits", torch.bool, "orders")


@pytest.mark.parametrize("dtype", TYPES)
def test_sampling_keeps_what_it_may(
    ops: Any, covers: Any, dtype: torch.dtype
) -> None:
    p = torch.rand(5, 300).softmax(-1).to(dtype)
    order = p.double().sort(-1, descending=True)
    top_k = torch.tensor([1, 5, 0, 300, 20], dtype=torch.int32)
    top_p = torch.tensor([1.0, 0.5, 0.1, 1.0, 0.4])
    min_p = torch.tensor([0, 0, 0, 0.9, 0])
    for seed in range(50):
        drawn = ops.sampling(p, torch.tensor([seed]), top_k, top_p, min_p)
        for row, index in enumerate(drawn.tolist()):
            kept = order.values[row]
            k = int(top_k[row]) or 300
            least = kept[k - 1]
            left = kept[kept >= least]
            part = (left.cumsum(0) < top_p[row] * left.sum()).sum()
            least = max(least, left[min(int(part), len(left) - 1)])
            least = max(least, min_p[row].double() * kept[0])
            assert p[row, index].double() >= least * (1 - 1e-6)
    covers("sampling", dtype, "top-k, top-p, min-p")


def test_sampling_follows_the_distribution(ops: Any) -> None:
    p = torch.tensor([0.5, 0.25, 0.0, 0.125, 0.125]).repeat(20000, 1)
    drawn = ops.sampling(p, torch.tensor([7]))
    share = torch.bincount(drawn.long(), minlength=5) / 20000
    assert float((share - p[0]).abs().max()) < 0.02 and share[2] == 0
    assert torch.equal(drawn, ops.sampling(p, torch.tensor([7])))
    own = torch.arange(20000)
    turned = ops.sampling(p.flip(0), own.flip(0))
    assert torch.equal(ops.sampling(p, own), turned.flip(0))


@pytest.mark.parametrize("dtype", TYPES)
def test_caches(ops: Any, covers: Any, dtype: torch.dtype) -> None:
    both = torch.zeros(5, 2, 4, 2, 8).to(dtype)  # K and V of one storage
    k_cache, v_cache = both[:, 0], both[:, 1]
    key, value = torch.randn(2, 6, 2, 8).to(dtype)
    slots = torch.tensor([0, 19, -1, 7, 4, 5])
    back = ops.reshape_and_cache(key, value, k_cache, v_cache, slots)
    assert back[0] is k_cache
    flat = k_cache.reshape(20, 2, 8)
    assert torch.equal(flat[[0, 19, 7, 4, 5]], key[[0, 1, 3, 4, 5]])
    assert int(flat.abs().sum((1, 2)).count_nonzero()) == 5
    with pytest.raises(RuntimeError, match=r"slot_mapping\[0\] is 20"):
        ops.reshape_and_cache(key[:1], value[:1], k_cache, v_cache,
                              torch.tensor([20]))
    indices = torch.tensor([3, 1, 4], dtype=torch.int32)
    indptr = torch.tensor([0, 2, 3], dtype=torch.int32)
    last = torch.tensor([2, 3], dtype=torch.int32)
    owner = torch.tensor([0, 0, 1, 1, 0, 1], dtype=torch.int32)
    position = torch.tensor([4, 5, 0, 2, 1, 1], dtype=torch.int32)
    ops.append_paged_kv_cache(
        key, value, owner, position, k_cache, v_cache, indices, indptr, last)
    assert torch.equal(both[1, 1, 0], value[0])
    assert torch.equal(both[4, 1, 2], value[3])
    position[2] = 4
    with pytest.raises(RuntimeError, match=r"positions\[2\] is 4, expected 0"):
        ops.append_paged_kv_cache(key, value, owner, position, k_cache,
                                  v_cache, indices, indptr, last)
    covers("reshape_and_cache", dtype, "in place, views")
    covers("append_paged_kv_cache", dtype, "in place, views")
