# SPDX-License-Identifier: Apache-2.0
"""The FlashInfer-shaped classes, eager and compiled, paged and ragged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import oracle
import pytest
import torch
from oracle import TOLERANCE, TYPES

flashinfer = pytest.importorskip("opgraft.flashinfer")


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
    assert oracle.row_error(wanted, exact) <= TOLERANCE[dtype]
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
    wanted, sums = oracle.attention(
        batch, window_left=99, logits_soft_cap=30.0,
        pos_encoding_mode="ROPE_LLAMA")
    assert oracle.row_error(out, wanted) <= 2 * TOLERANCE[dtype]
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
def test_fifty_batches_compile_once(ops: Any) -> None:
    """No graph break, and no recompile beyond the one that makes sizes
    dynamic."""
    from torch._dynamo.testing import CompileCounter

    counter = CompileCounter()
    w = flashinfer.BatchPrefillWithRaggedKVCacheWrapper(use_cuda_graph=True)

    def model(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
        plan, settings = w._planned(), w._settings
        out, _ = ops.batch_prefill_ragged(plan.plan, q, k, v, **settings)
        return out * 2

    compiled = torch.compile(model, backend=counter, fullgraph=True,
                             dynamic=True)
    for i in range(50):
        batch = oracle.make_batch(
            [3 + i, 9], [20 + i, 9], (2, 2), (32, 32), torch.float32)
        w.plan(batch.qo_indptr, batch.kv_indptr, 2, 2, 32,
               disable_split_kv=True)
        wanted, _ = oracle.attention(batch)
        found = compiled(batch.q, batch.k, batch.v)
        assert oracle.error(found, 2 * wanted) <= 1e-5
    assert counter.frame_count <= 2


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
def test_no_clone_of_a_cache(ops: Any) -> None:
    """Writing to a big cache inside a compiled region copies none of it."""
    cache = torch.zeros(2048, 2, 16, 8, 128)  # 256 MiB, K and V in one storage
    key = torch.randn(4, 8, 128)
    slots = torch.tensor([0, 77, 999, 2048 * 16 - 1])

    def step(cache: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        k, _ = ops.reshape_and_cache(
            key, key * 2, cache[:, 0], cache[:, 1], slots)
        return k[0, 0] + 1

    compiled = torch.compile(step, fullgraph=True)
    compiled(cache, key)
    Path("/proc/self/clear_refs").write_text("5")
    before = resident("VmRSS")
    compiled(cache, key)
    assert resident("VmHWM") - before < 32 * 1024
    assert torch.equal(cache[0, 0, 0], key[0])
    assert torch.equal(cache[-1, 1, 15], key[3] * 2)


def resident(key: str) -> int:
    """Kilobytes, from the kernel's account of this process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key):
            return int(line.split()[1])
    return 0
