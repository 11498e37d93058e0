# SPDX-License-Identifier: Apache-2.0
"""Caches of 8 bits: what is written is torch's rounding, and attention over it
is float64's of what the cache holds."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from oracle import TYPES

FORMS = {"int8": (torch.int8, 127.0), "e4m3": (torch.float8_e4m3fn, 448.0),
         "e5m2": (torch.float8_e5m2, 57344.0)}
HEADS, PAGE, PAGES, DIM = 4, 16, 13, 80


def narrowed(x: torch.Tensor, scale: torch.Tensor, form: str) -> torch.Tensor:
    """[..., heads, dim], as bytes."""
    dtype, most = FORMS[form]
    y = x.float() / scale.repeat_interleave(HEADS // len(scale))[:, None]
    y = y.clamp(-most, most)
    y = y.round() if form == "int8" else y
    return y.to(dtype).view(torch.uint8)


def widened(cache: torch.Tensor, scale: torch.Tensor, form: str) -> torch.Tensor:
    own = scale.double().repeat_interleave(HEADS // len(scale))[:, None]
    return cache.view(torch.uint8).view(FORMS[form][0]).double() * own


def cache_of(form: str) -> torch.Tensor:
    return torch.zeros(PAGES, PAGE, HEADS, DIM, dtype=torch.uint8).view(FORMS[form][0])


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("scales", [1, 2, 4])
@pytest.mark.parametrize("form", FORMS)
def test_what_is_written(ops: Any, covers: Any, form: str, scales: int,
                         dtype: torch.dtype) -> None:
    tokens = 37
    x = torch.randn(2, tokens, HEADS, DIM) * 2 ** (torch.rand(tokens, 1, 1) * 24 - 16)
    x[0, 0, 0, :4] = torch.tensor([math.inf, -math.inf, 0.0, -0.0])
    key, value = x.to(dtype)
    k_scale, v_scale = torch.rand(2, scales) / 9 + .01
    slots = torch.randperm(PAGES * PAGE)[:tokens]
    slots[3] = -1
    k_cache, v_cache = cache_of(form), cache_of(form)
    back = ops.reshape_and_cache_scaled(key, value, k_cache, v_cache, slots,
                                        k_scale, v_scale)
    assert back[0] is k_cache
    for cache, given, scale in ((k_cache, key, k_scale), (v_cache, value, v_scale)):
        flat = cache.view(torch.uint8).view(-1, HEADS, DIM)
        wanted = narrowed(given, scale, form)
        kept = slots >= 0
        assert torch.equal(flat[slots[kept]], wanted[kept])
        others = torch.ones(PAGES * PAGE, dtype=torch.bool)
        others[slots[kept]] = False
        assert not flat[others].any()
    owner = torch.zeros(tokens, dtype=torch.int32)
    position = torch.randperm(3 * PAGE)[:tokens].int()
    pages = torch.tensor([7, 2, 9], dtype=torch.int32)
    k_own, v_own = cache_of(form), cache_of(form)
    ops.append_paged_kv_cache_scaled(
        key, value, owner, position, k_own, v_own, pages,
        torch.tensor([0, 3], dtype=torch.int32),
        torch.tensor([PAGE], dtype=torch.int32), k_scale, v_scale)
    at = pages[position // PAGE] * PAGE + position % PAGE
    assert torch.equal(k_own.view(torch.uint8).view(-1, HEADS, DIM)[at.long()],
                       narrowed(key, k_scale, form))
    covers("reshape_and_cache_scaled", dtype, form)
    covers("append_paged_kv_cache_scaled", dtype, form)


def attended(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, first: int
             ) -> torch.Tensor:
    """[rows, heads of q, dim]; row i sees keys up to first + i."""
    group = q.shape[1] // HEADS
    k, v = (t.repeat_interleave(group, 1) for t in (k, v))
    s = torch.einsum("qhd,khd->hqk", q.double(), k) / math.sqrt(DIM)
    sees = torch.arange(len(k)) <= first + torch.arange(len(q))[:, None]
    return torch.einsum("hqk,khd->qhd",
                        s.masked_fill(~sees, -math.inf).softmax(2), v)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("rows, group", [(1, 1), (1, 4), (1, 7), (5, 1), (40, 2)])
@pytest.mark.parametrize("form, scales", [("int8", 1), ("int8", 4), ("e4m3", 2),
                                          ("e5m2", 4)])
def test_attention(ops: Any, covers: Any, form: str, scales: int, rows: int,
                   group: int, dtype: torch.dtype) -> None:
    """Three requests, of which each has `rows` queries."""
    lengths = [98, 45, rows]
    indptr = torch.tensor([0, *(-(-n // PAGE) for n in lengths)]).cumsum(0).int()
    pages = torch.randperm(PAGES).int()
    key, value = torch.randn(2, sum(lengths), HEADS, DIM).to(dtype)
    k_scale, v_scale = (torch.rand(2, scales) / 2 + .5) * (
        .06 if form == "int8" else .02)
    slots = torch.cat([pages[int(indptr[b]) + torch.arange(n) // PAGE] * PAGE
                       + torch.arange(n) % PAGE for b, n in enumerate(lengths)])
    k_cache, v_cache = cache_of(form), cache_of(form)
    ops.reshape_and_cache_scaled(key, value, k_cache, v_cache, slots.long(),
                                 k_scale, v_scale)
    q = torch.randn(3 * rows, HEADS * group, DIM).to(dtype)
    last = torch.tensor([(n - 1) % PAGE + 1 for n in lengths], dtype=torch.int32)
    plan = ops.plan_attention(
        indptr, None if rows == 1 else torch.arange(4) * rows,
        HEADS * group, HEADS, DIM, last_page_len=last, page_size=PAGE,
        causal=rows > 1)
    name = "batch_decode_paged" if rows == 1 else "batch_prefill_paged"
    y, lse = getattr(ops, f"{name}_scaled")(
        plan.plan, q, k_cache, v_cache, pages, k_scale, v_scale,
        split_bytes=plan.split_bytes)
    assert y.dtype == dtype and bool(lse.isfinite().all())
    begin = 0
    for b, n in enumerate(lengths):
        k, v = (widened(c, s, form).view(-1, HEADS, DIM)[slots[begin:begin + n].long()]
                for c, s in ((k_cache, k_scale), (v_cache, v_scale)))
        own = q[b * rows:(b + 1) * rows]
        wanted, exact = (attended(own, a, c, n - rows) for a, c in (
            (k, v), (key[begin:begin + n].double(), value[begin:begin + n].double())))
        off = y[b * rows:(b + 1) * rows].double() - wanted
        assert off.norm() <= (2e-6 + torch.finfo(dtype).eps) * wanted.norm()
        lost = (wanted - exact).norm() / exact.norm()
        print(f"{form}, {n} keys: the format loses {lost:.2e}, the sums "
              f"{off.norm() / wanted.norm():.1e}")
        assert lost < {"int8": .03, "e4m3": .06, "e5m2": .12}[form]
        begin += n
    covers(f"{name}_scaled", dtype, form)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("rows, dims", [(1, (33, 256)), (1, (80, 41)), (9, (33, 72))])
@pytest.mark.parametrize("form", FORMS)
def test_every_byte(ops: Any, form: str, rows: int, dims: tuple[int, int],
                    dtype: torch.dtype) -> None:
    """256 requests of one key, which is 0 but for byte b where logarithms are
    asked for, and 0 where values are, which have all bytes from b on, or as many
    as they are wide. So a result is a value, to the bit, and its logarithm a key;
    a key of NaN makes NaN. Infinite keys are left out."""
    count, (wide_k, wide_v), most = 256, dims, FORMS[form][1]
    byte = torch.arange(count, dtype=torch.uint8)
    value = byte.view(FORMS[form][0]).float()
    key = byte.masked_fill(value.isinf(), 0)
    at = torch.arange(count)
    keys = torch.zeros(count, 1, HEADS, wide_k, dtype=torch.uint8)
    keys[at, 0, :, at % wide_k] = key[:, None]
    rolled = (at[:, None] + torch.arange(wide_v)) % count
    values = byte[rolled][:, None, None].repeat(1, 1, HEADS, 1)
    k_scale, v_scale = torch.rand(HEADS) / most + .01, torch.rand(HEADS) + .1
    plan = ops.plan_attention(
        torch.arange(count + 1, dtype=torch.int32),
        None if rows == 1 else torch.arange(count + 1) * rows, HEADS, HEADS,
        wide_k, wide_v, last_page_len=torch.ones(count, dtype=torch.int32),
        page_size=1, causal=False)
    run = ops.batch_decode_paged_scaled if rows == 1 else ops.batch_prefill_paged_scaled
    q = torch.ones(count * rows, HEADS, wide_k, dtype=dtype)
    own = FORMS[form][0]
    (y, _), (_, lse) = (
        run(plan.plan, q, k.view(own), values.view(own),
            torch.arange(count, dtype=torch.int32), k_scale, v_scale, sm_scale=1.0,
            lse_base="e", split_bytes=plan.split_bytes)
        for k in (keys * 0, keys))
    for found, wanted, near in (
            (y, (value[rolled][:, None] * v_scale[:, None]).to(dtype), 0),
            (lse, key.view(FORMS[form][0]).float()[:, None] * k_scale, 4e-7)):
        torch.testing.assert_close(
            found.view(count, rows, *wanted.shape[1:]),
            wanted[:, None].expand(-1, rows, *wanted.shape[1:]),
            rtol=near, atol=near, equal_nan=True)


def test_what_is_refused(ops: Any) -> None:
    key = torch.randn(1, HEADS, DIM)
    cache = cache_of("int8").view(torch.uint8)
    with pytest.raises(RuntimeError, match=r"i8\|f8e4m3\|f8e5m2"):
        ops.reshape_and_cache_scaled(key, key, cache, cache, torch.tensor([0]),
                                     torch.ones(1), torch.ones(1))
    with pytest.raises(RuntimeError, match="S"):
        ops.reshape_and_cache_scaled(
            key, key, cache_of("int8"), cache_of("int8"), torch.tensor([0]),
            torch.ones(3), torch.ones(3))
