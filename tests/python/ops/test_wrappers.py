# SPDX-License-Identifier: Apache-2.0
"""The FlashInfer-shaped classes, eager and compiled, paged and ragged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import oracle
import pytest
import torch
from oracle import TYPES
from test_attention import near

flashinfer = pytest.importorskip("opgraft.flashinfer")
BACKENDS = ["inductor", "opgraft"]


def paged(
    ops: Any, batch: oracle.Batch, page_size: int, heads_first: bool
) -> tuple[torch.Tensor, tuple[torch.Tensor, ...]]:
    """The batch's keys and values in shuffled pages of one storage."""
    lengths = batch.kv_indptr.diff()
    pages = (lengths + page_size - 1) // page_size
    indptr = oracle.indptr_of(pages.tolist())
    total = int(indptr[-1])
    indices = torch.randperm(total + 3)[:total].to(torch.int32)
    last = torch.where(lengths > 0, (lengths - 1) % page_size + 1, 0).int()
    shape = (total + 3, 2, page_size, *batch.k.shape[1:])
    cache = torch.full(shape, float("nan"), dtype=batch.k.dtype)
    owner = torch.repeat_interleave(torch.arange(len(lengths)), lengths).int()
    position = torch.cat([torch.arange(n) for n in lengths.tolist()]).int()
    ops.append_paged_kv_cache(
        batch.k, batch.v, owner, position, cache[:, 0], cache[:, 1], indices,
        indptr, last)
    cache = cache.nan_to_num(0)
    if heads_first:
        cache = cache.transpose(2, 3).contiguous()
    return cache, (indptr, indices, last)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("layout", ["NHD", "HND"])
@pytest.mark.parametrize("page_size", [1, 16])
def test_paged_is_ragged(
    ops: Any, covers: Any, dtype: torch.dtype, layout: str, page_size: int
) -> None:
    batch = oracle.make_batch(
        [1, 40, 3, 2], [130, 64, 5, 0], (4, 2), (64, 64), dtype)
    ragged = flashinfer.BatchPrefillWithRaggedKVCacheWrapper(torch.empty(0))
    ragged.plan(batch.qo_indptr, batch.kv_indptr, 4, 2, 64, causal=True)
    wanted, sums = ragged.run(batch.q, batch.k, batch.v, return_lse=True)
    cache, pages = paged(ops, batch, page_size, layout == "HND")
    prefill = flashinfer.BatchPrefillWithPagedKVCacheWrapper(
        torch.empty(0), layout)
    prefill.plan(batch.qo_indptr, *pages, 4, 2, 64, page_size, causal=True)
    for given in (cache, (cache[:, 0], cache[:, 1])):
        out, lse = prefill.run(batch.q, given, return_lse=True)
        assert torch.equal(out, wanted) and torch.equal(lse, sums)
    exact, _ = oracle.attention(batch, causal=True)
    near(wanted, exact, batch, causal=True)
    covers("batch_prefill_paged", dtype, f"pages, {layout}")


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("layout", ["NHD", "HND"])
def test_decode(ops: Any, covers: Any, dtype: torch.dtype, layout: str) -> None:
    batch = oracle.make_batch(
        [1] * 4, [130, 600, 5, 17], (8, 2), (64, 64), dtype)
    cache, pages = paged(ops, batch, 16, layout == "HND")
    decode = flashinfer.BatchDecodeWithPagedKVCacheWrapper(None, layout)
    decode.plan(*pages, 8, 2, 64, 16, data_type=dtype, window_left=99,
                logits_soft_cap=30.0, pos_encoding_mode="ROPE_LLAMA")
    out, lse = decode.run(batch.q, cache, return_lse=True)
    settings = dict(window_left=99, logits_soft_cap=30.0,
                    pos_encoding_mode="ROPE_LLAMA")
    wanted, sums = oracle.attention(batch, **settings)
    near(out, wanted, batch, **settings)
    assert oracle.error(lse, sums) <= 1e-2
    covers("batch_decode_paged", dtype, f"pages, {layout}")


def test_masks_and_layouts() -> None:
    batch = oracle.make_batch(
        [9, 4], [20, 4], (4, 2), (32, 32), torch.float32, masked=True)
    for layout in ("NHD", "HND"):
        w = flashinfer.BatchPrefillWithRaggedKVCacheWrapper(None, layout)
        w.plan(batch.qo_indptr, batch.kv_indptr, 4, 2, 32, causal=True,
               custom_mask=batch.flat_mask, sm_scale=0.3)
        k, v = batch.k, batch.v
        if layout == "HND":
            k, v = k.transpose(0, 1), v.transpose(0, 1)
        out = w.run(batch.q, k, v, v_scale=2.0)
        wanted, _ = oracle.attention(batch, sm_scale=0.3)
        assert oracle.error(out, 2 * wanted) <= 1e-5
        given = torch.empty_like(out)
        assert w.run(batch.q, k, v, out=given) is given


def test_what_is_not_supported_says_so() -> None:
    batch = oracle.make_batch([3], [3], (2, 2), (32, 32), torch.float32)
    w = flashinfer.BatchPrefillWithRaggedKVCacheWrapper()
    with pytest.raises(RuntimeError, match="call plan first"):
        w.run(batch.q, batch.k, batch.v)
    with pytest.raises(NotImplementedError, match="max_item_len_ptr"):
        w.plan(batch.qo_indptr, batch.kv_indptr, 2, 2, 32,
               max_item_len_ptr=torch.zeros(1))
    w.plan(batch.qo_indptr, batch.kv_indptr, 2, 2, 32, q_data_type="bfloat16")
    with pytest.raises(ValueError, match="plan named torch.bfloat16"):
        w.run(batch.q, batch.k, batch.v)


@pytest.mark.full
@pytest.mark.parametrize("backend", BACKENDS)
def test_fifty_batches_compile_once(ops: Any, backend: str) -> None:
    """No graph break, and no recompile once sizes are dynamic: plan, write to
    the cache and attend in one graph, whatever the batch."""
    torch._dynamo.reset()
    sizes, most = (2, 2, 32, 32), 4096
    # Two tensors: Inductor (2.13) loses the symbolic offset of a view that a
    # custom operator writes to, cache[:, 1] (docs/pytorch.md).
    keys, values = torch.zeros(64, 16, 2, 32), torch.zeros(64, 16, 2, 32)

    def model(
        q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor,
        qo_indptr: torch.Tensor, kv_indptr: torch.Tensor, last: torch.Tensor,
        pages: torch.Tensor,
    ) -> torch.Tensor:
        k_cache, v_cache = ops.reshape_and_cache(k, v, keys, values, slots)
        plan = ops.attention_plan(
            kv_indptr, qo_indptr, last, *sizes, 16, causal=True,
            fixed_split=-1, size=most)
        out, _ = ops.batch_prefill_paged(plan, q, k_cache, v_cache, pages)
        return out * 2

    compiled = torch.compile(model, backend=backend, fullgraph=True,
                             dynamic=True)
    g = torch.Generator().manual_seed(1)
    for i in range(50):
        lengths = torch.randint(2, 60, (2 + i % 5,), generator=g).tolist()
        batch = oracle.make_batch(
            lengths, lengths, (2, 2), (32, 32), torch.float32, seed=i)
        counts = [-(-n // 16) for n in lengths]
        starts = oracle.indptr_of(counts).tolist()
        pages = torch.randperm(64, generator=g)[:sum(counts)]
        slots = torch.cat([pages[s:s + c].repeat_interleave(16)[:n] * 16
                           + torch.arange(n) % 16
                           for s, c, n in zip(starts, counts, lengths)])
        last = torch.tensor([(n - 1) % 16 + 1 for n in lengths])
        wanted, _ = oracle.attention(batch, causal=True)
        with torch._dynamo.config.patch(error_on_recompile=i > 1):
            found = compiled(
                batch.q, batch.k, batch.v, slots, batch.qo_indptr,
                oracle.indptr_of(counts), last.int(), pages.int())
        assert oracle.error(found, 2 * wanted) <= 1e-5


def test_compiled_without_a_break() -> None:
    batch = oracle.make_batch(
        [5, 40], [9, 70], (4, 2), (64, 64), torch.float32)
    w = flashinfer.BatchPrefillWithRaggedKVCacheWrapper()
    w.plan(batch.qo_indptr, batch.kv_indptr, 4, 2, 64, causal=True)
    compiled = torch.compile(
        lambda q, k, v: w.run(q, k, v) + 1, fullgraph=True,
        backend="aot_eager")
    found = compiled(batch.q, batch.k, batch.v)
    wanted, _ = oracle.attention(batch, causal=True)
    assert oracle.error(found - 1, wanted) <= 1e-5


@pytest.mark.full
@pytest.mark.parametrize("is_one_storage", [True, False])
@pytest.mark.parametrize("backend", ["inductor", "opgraft"])
def test_no_clone_of_a_cache(
    ops: Any, backend: str, is_one_storage: bool
) -> None:
    """Writing to a cache of 1 GiB inside a compiled region, and reading it
    there, copies none of it: neither where K and V are views of one storage
    nor where they are tensors of their own."""
    torch._dynamo.reset()
    if is_one_storage:
        whole = torch.zeros(8192, 2, 16, 8, 128)
        keys, values = whole[:, 0], whole[:, 1]
        caches: tuple[torch.Tensor, ...] = (whole,)
    else:
        keys, values = torch.zeros(8192, 16, 8, 128), torch.zeros(
            8192, 16, 8, 128)
        caches = (keys, values)
    key = torch.randn(4, 8, 128)
    pages = torch.tensor([0, 77, 4000, 8191], dtype=torch.int32)
    plan = ops.plan_attention(
        torch.arange(5, dtype=torch.int32), None, 8, 8, 128, page_size=16,
        last_page_len=torch.ones(4, dtype=torch.int32), fixed_split=-1).plan

    def step(key: torch.Tensor, *caches: torch.Tensor) -> torch.Tensor:
        views = caches if len(caches) == 2 else (
            caches[0][:, 0], caches[0][:, 1])
        k, v = ops.reshape_and_cache(key, key * 2, *views, pages.long() * 16)
        return ops.batch_decode_paged(plan, key, k, v, pages)[0] + 1

    compiled = torch.compile(step, backend=backend, fullgraph=True)
    compiled(key, *caches)
    Path("/proc/self/clear_refs").write_text("5")
    before = resident("VmRSS")
    found = compiled(key, *caches)
    assert resident("VmHWM") - before < 32 * 1024
    # One key each: attention gives its value.
    torch.testing.assert_close(found, key * 2 + 1)
    assert torch.equal(keys[77, 0], key[1])
    assert torch.equal(values[8191, 0], key[3] * 2)


def resident(key: str) -> int:
    """Kilobytes, from the kernel's account of this process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key):
            return int(line.split()[1])
    return 0
