# SPDX-License-Identifier: Apache-2.0
"""Attention against a float64 oracle, on truly ragged lengths."""

from __future__ import annotations

import math
from typing import Any

import oracle
import pytest
import torch
from oracle import TYPES

ZIPF = [max(1, 300 // r) for r in range(1, 17)]
LENGTHS = {
    "zeros": ([0, 3, 0, 40], [0, 7, 9, 64]),
    "ones": ([1, 1, 1, 1], [1, 33, 300, 2]),
    "zipf": (ZIPF, ZIPF),
    "one_long": ([2, 600, 1], [2, 700, 4]),
    "q_longer": ([34, 9], [1, 3]),
    "kv_longer": ([3, 17, 127], [54, 97, 512]),
    "few_rows": ([2, 5, 8], [129, 31, 32]),
}


def run(
    ops: Any,
    batch: oracle.Batch,
    *,
    fixed_split: int = 0,
    threads: int = 0,
    causal: bool = False,
    window_left: int = -1,
    **settings: Any,
) -> tuple[torch.Tensor, torch.Tensor]:
    plan = ops.plan_attention(
        batch.kv_indptr, batch.qo_indptr, batch.q.shape[1], batch.k.shape[1],
        batch.q.shape[2], batch.v.shape[2], causal=causal,
        window_left=window_left, fixed_split=fixed_split, threads=threads)
    mask = None
    if batch.masks is not None:
        counts = (batch.qo_indptr.diff() * batch.kv_indptr.diff()).tolist()
        mask, _ = ops.segment_packbits(
            batch.flat_mask, oracle.indptr_of(counts), bitorder="little")
    return ops.batch_prefill_ragged(
        plan.plan, batch.q, batch.k, batch.v, mask,
        split_bytes=plan.split_bytes, **settings)


def compare(
    ops: Any, batch: oracle.Batch, **settings: Any
) -> None:
    out, lse = run(ops, batch, **settings)
    for name in ("fixed_split", "threads"):
        settings.pop(name, None)
    wanted, wanted_lse = oracle.attention(batch, **settings)
    near(out, wanted, batch, **settings)
    dtype = batch.q.dtype
    is_empty = wanted_lse == -math.inf
    assert torch.equal(lse == -math.inf, is_empty)
    assert bool((out[is_empty] == 0).all())
    wanted_lse = wanted_lse.masked_fill(is_empty, 0)
    bound = 1e-5 if dtype == torch.float32 else 1e-2
    assert float((lse.double().masked_fill(is_empty, 0) - wanted_lse)
                 .abs().max()) <= bound * (1 + float(wanted_lse.abs().max()))


def near(
    out: torch.Tensor, wanted: torch.Tensor, batch: oracle.Batch,
    **settings: Any
) -> None:
    """f32 to 1e-5 of the row; 16 bits to twice torch's own error."""
    own = 0.0
    if out.dtype != torch.float32:
        own = oracle.row_error(
            oracle.attention_by_torch(batch, **settings), wanted)
    assert oracle.row_error(out, wanted) <= oracle.bound(out.dtype, own)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("lengths", LENGTHS)
def test_ragged_lengths(
    ops: Any, covers: Any, dtype: torch.dtype, causal: bool, lengths: str
) -> None:
    batch = oracle.make_batch(*LENGTHS[lengths], (4, 2), (64, 64), dtype)
    compare(ops, batch, causal=causal)
    covers("batch_prefill_ragged", dtype, "ragged lengths, causal")


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("sizes", [(32, 32), (64, 64), (80, 80), (96, 96),
                                   (128, 128), (192, 192), (256, 256),
                                   (192, 128), (64, 256)])
def test_head_sizes(
    ops: Any, covers: Any, dtype: torch.dtype, sizes: tuple[int, int]
) -> None:
    batch = oracle.make_batch([100, 1, 3], [130, 70, 90], (2, 2), sizes, dtype)
    compare(ops, batch, causal=True)
    covers("batch_prefill_ragged", dtype, "head sizes 32 to 256, QK and VO")


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("heads", [(4, 4), (8, 2), (8, 1), (9, 3)])
def test_groups(
    ops: Any, covers: Any, dtype: torch.dtype, heads: tuple[int, int]
) -> None:
    batch = oracle.make_batch([37, 1, 5], [97, 54, 5], heads, (64, 64), dtype)
    compare(ops, batch, causal=True)
    covers("batch_prefill_ragged", dtype, "groups 1, 3, 4, 8")


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("rows", [1, 3, 20])
def test_an_infinite_value(ops: Any, dtype: torch.dtype, rows: int) -> None:
    """Which the last key has: behind it there is nothing to multiply it by."""
    lengths = [*range(1, 10), 31, 32, 33, 65]
    batch = oracle.make_batch([rows] * len(lengths), lengths, (4, 2), (40, 40),
                              dtype)
    batch.v[batch.kv_indptr[1:].long() - 1, 1, 5] = math.inf
    out, _ = run(ops, batch)
    assert bool((out[:, 2:, 5] == math.inf).all())
    out[:, 2:, 5] = 0
    assert bool(out.isfinite().all())


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("window", [0, 3, 64, 533])
def test_window(
    ops: Any, covers: Any, dtype: torch.dtype, window: int
) -> None:
    batch = oracle.make_batch([200, 2], [700, 600], (4, 2), (64, 64), dtype)
    compare(ops, batch, causal=True, window_left=window)
    covers("batch_prefill_ragged", dtype, "window")


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("cap", [1.0, 30.0, 50.0])
def test_soft_cap(
    ops: Any, covers: Any, dtype: torch.dtype, cap: float
) -> None:
    batch = oracle.make_batch([60, 2], [90, 129], (4, 2), (64, 64), dtype)
    batch.q.mul_(4)
    compare(ops, batch, causal=True, logits_soft_cap=cap)
    covers("batch_prefill_ragged", dtype, "soft cap")


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("mode", ["ROPE_LLAMA", "ALIBI"])
def test_positions(
    ops: Any, covers: Any, dtype: torch.dtype, mode: str
) -> None:
    batch = oracle.make_batch([60, 2], [300, 129], (6, 2), (64, 64), dtype)
    compare(ops, batch, causal=True, pos_encoding_mode=mode)
    covers("batch_prefill_ragged", dtype, mode)


@pytest.mark.parametrize("dtype", TYPES)
def test_custom_mask(ops: Any, covers: Any, dtype: torch.dtype) -> None:
    batch = oracle.make_batch(
        [100, 3, 1, 7], [300, 129, 5, 1], (4, 2), (64, 64), dtype, masked=True)
    assert batch.masks is not None
    batch.masks[0][4] = False  # a row that sees nothing
    compare(ops, batch)
    covers("batch_prefill_ragged", dtype, "custom mask")


@pytest.mark.parametrize("dtype", TYPES)
def test_one_valid_key_is_exact(ops: Any, dtype: torch.dtype) -> None:
    batch = oracle.make_batch([20, 2], [20, 9], (2, 2), (64, 64), dtype)
    batch.q.fill_(-512)
    batch.k.fill_(128)  # every logit is -524288
    mask = torch.zeros(20, 20, dtype=torch.bool)
    mask[:, 7] = True
    batch.masks = [mask, torch.eye(9, dtype=torch.bool)[3:5]]
    out, lse = run(ops, batch)
    assert torch.equal(out[:20], batch.v[7].expand(20, -1, -1))
    assert torch.equal(out[20:], batch.v[23:25])
    assert bool(lse.isfinite().all())


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("split", [64, 256, 500])
def test_split_keys(
    ops: Any, covers: Any, dtype: torch.dtype, split: int
) -> None:
    batch = oracle.make_batch(
        [1, 60, 2], [1500, 900, 129], (8, 2), (64, 64), dtype)
    compare(ops, batch, causal=True, fixed_split=split)
    compare(ops, batch, causal=True, threads=8)
    covers("batch_prefill_ragged", dtype, "keys split and merged")


def test_split_with_an_empty_part(ops: Any) -> None:
    """Every key of the second part is masked."""
    batch = oracle.make_batch(
        [2, 30], [129, 129], (4, 2), (64, 64), torch.float32, masked=True)
    assert batch.masks is not None
    for mask in batch.masks:
        mask[:, 64:] = False
    compare(ops, batch, fixed_split=64)


@pytest.mark.parametrize("dtype", TYPES)
def test_strides_of_packed_qkv(
    ops: Any, covers: Any, dtype: torch.dtype
) -> None:
    lengths = [3, 40, 1]
    qkv = torch.randn(44, 4 + 2 + 2, 64).to(dtype)
    q, k, v = qkv.split([4, 2, 2], 1)
    indptr = oracle.indptr_of(lengths)
    compare(ops, oracle.Batch(q, k, v, indptr, indptr), causal=True)
    heads_first = torch.randn(2, 44, 64).to(dtype).transpose(0, 1)
    compare(ops, oracle.Batch(q, heads_first, v, indptr, indptr), causal=True)
    covers("batch_prefill_ragged", dtype, "strides: packed QKV, HND")


def test_natural_lse(ops: Any) -> None:
    batch = oracle.make_batch([5], [9], (2, 1), (32, 32), torch.float32)
    _, base2 = run(ops, batch)
    _, natural = run(ops, batch, lse_base="e")
    assert float((base2 * math.log(2) - natural).abs().max()) < 1e-5


@pytest.mark.parametrize("dtype", TYPES)
def test_batch_invariance(ops: Any, covers: Any, dtype: torch.dtype) -> None:
    """A request's bits depend neither on the batch nor on the threads."""
    lengths = ([1, 77, 3, 200], [900, 300, 40, 512])
    batch = oracle.make_batch(*lengths, (8, 2), (64, 64), dtype)
    for split in (-1, 256):
        out, lse = run(ops, batch, causal=True, fixed_split=split)
        many, _ = run(ops, batch, causal=True, fixed_split=split, threads=32)
        assert torch.equal(out, many)
        q, kv = batch.qo_indptr.tolist(), batch.kv_indptr.tolist()
        for i in range(4):
            alone = oracle.Batch(
                batch.q[q[i]:q[i + 1]], batch.k[kv[i]:kv[i + 1]],
                batch.v[kv[i]:kv[i + 1]], oracle.indptr_of([lengths[0][i]]),
                oracle.indptr_of([lengths[1][i]]))
            o, s = run(ops, alone, causal=True, fixed_split=split)
            assert torch.equal(o, out[q[i]:q[i + 1]])
            assert torch.equal(s, lse[q[i]:q[i + 1]])
    covers("batch_prefill_ragged", dtype, "batch invariance")


def test_rows_outside_are_not_touched(ops: Any) -> None:
    batch = oracle.make_batch([3, 20], [5, 30], (2, 2), (64, 64), torch.float32)
    out, lse = run(ops, batch)
    indptr = batch.qo_indptr + 2
    plan = ops.plan_attention(batch.kv_indptr, indptr, 2, 2, 64)
    q = torch.full((30, 2, 64), math.nan)
    q[2:25] = batch.q
    wide, sums = torch.full_like(q, 7.0), torch.full((30, 2), 7.0)
    torch.ops.batch_prefill_ragged.batch_prefill_ragged.out(
        plan.plan, q, batch.k, batch.v, split_bytes=plan.split_bytes,
        out=wide, lse=sums)
    assert torch.equal(wide[2:25], out) and torch.equal(sums[2:25], lse)
    assert bool((wide[:2] == 7).all()) and bool((wide[25:] == 7).all())
    assert bool((sums[:2] == 7).all()) and bool((sums[25:] == 7).all())


@pytest.mark.parametrize("keys", [1, 2, 40])
def test_a_query_that_is_no_number_gives_none(ops: Any, keys: int) -> None:
    """Not the zeros of a row whose keys are all masked."""
    batch = oracle.make_batch([6, 3], [keys, 3], (2, 2), (64, 64),
                              torch.float32)
    batch.q[1] = math.nan
    out, lse = run(ops, batch)
    assert bool(out[1].isnan().all()) and bool(lse[1].isnan().all())
    others = [0, *range(2, 9)]
    assert not bool(out[others].isnan().any() | lse[others].isnan().any())


@pytest.mark.parametrize("indptr, message", [
    ([0, 5, 3], r"qo_indptr\[2\] is 3, less than the entry before it, 5"),
    ([-1, 5, 6], r"qo_indptr\[0\] is -1, but the least is 0"),
])
def test_bad_indptr_is_named(ops: Any, indptr: list[int], message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        ops.plan_attention(
            oracle.indptr_of([1, 2]), torch.tensor(indptr), 2, 2, 64)


def test_plan_past_the_data_is_named(ops: Any) -> None:
    batch = oracle.make_batch([3, 4], [3, 4], (2, 2), (64, 64), torch.float32)
    batch.q = batch.q[:6]
    with pytest.raises(RuntimeError, match=r"qo_indptr\[2\] is 7, but q has"):
        run(ops, batch)


def test_damaged_plans_are_refused(ops: Any) -> None:
    """No byte of a plan can make the kernel leave its tensors."""
    batch = oracle.make_batch([9, 4], [30, 4], (4, 2), (32, 32), torch.float32)
    plan = ops.plan_attention(batch.kv_indptr, batch.qo_indptr, 4, 2, 32)
    g = torch.Generator().manual_seed(1)
    for _ in range(400):
        bad = plan.plan.clone()
        at = int(torch.randint(bad.numel(), (1,), generator=g))
        bad[at] = int(torch.randint(256, (1,), generator=g))
        try:
            ops.batch_prefill_ragged(bad, batch.q, batch.k, batch.v)
        except RuntimeError:
            pass
    with pytest.raises(RuntimeError, match="not a plan"):
        ops.batch_prefill_ragged(
            plan.plan[:64], batch.q, batch.k, batch.v)


@pytest.mark.parametrize("split", [0, 128])
def test_plan_sizes(ops: Any, split: int) -> None:
    """plan_size is exact; plan_max serves every smaller batch."""
    g = torch.Generator().manual_seed(3)
    sizes = (8, 2, 64, 64)
    most = int(ops.attention_plan_max(
        20, 3000, 900, *sizes, fixed_split=split, threads=4))
    buffer = torch.empty(most, dtype=torch.uint8)
    for _ in range(30):
        n = int(torch.randint(1, 21, (1,), generator=g))
        q = torch.randint(0, 150, (n,), generator=g).tolist()
        kv = torch.randint(0, 901, (n,), generator=g).tolist()
        batch = (oracle.indptr_of(kv), oracle.indptr_of(q), None, *sizes)
        size = int(ops.attention_plan_size(
            *batch, fixed_split=split, threads=4))
        assert size <= most
        exact = ops.attention_plan(
            *batch, fixed_split=split, threads=4, size=size)
        assert int(ops.attention_plan_info(exact)[0]) == size
        with pytest.raises(RuntimeError, match="the plan takes"):
            ops.attention_plan(
                *batch, fixed_split=split, threads=4, size=size - 8)
        torch.ops.attention_plan.attention_plan.out(
            *batch, fixed_split=split, threads=4, size=most, out=buffer)
        assert torch.equal(buffer[:size], exact)


def test_balance_on_zipf(ops: Any) -> None:
    lengths = [max(1, 8192 // r) for r in range(1, 65)]
    for threads in (2, 4, 8):
        decode = ops.plan_attention(
            oracle.indptr_of(lengths), None, 32, 8, 128, threads=threads)
        prefill = ops.plan_attention(
            oracle.indptr_of(lengths), oracle.indptr_of(lengths), 32, 8, 128,
            causal=True, threads=threads)
        assert decode.imbalance <= 1.05 and prefill.imbalance <= 1.05


def test_single_prefill(ops: Any, covers: Any) -> None:
    for dtype in TYPES:
        batch = oracle.make_batch([70], [200], (4, 2), (64, 64), dtype)
        out, lse = ops.single_prefill(
            batch.q, batch.k, batch.v, causal=True, window_left=50)
        wanted, sums = oracle.attention(batch, causal=True, window_left=50)
        near(out, wanted, batch, causal=True, window_left=50)
        assert oracle.error(lse, sums) <= 1e-4
        covers("single_prefill", dtype, "causal, window")


def test_decode_ragged(ops: Any, covers: Any) -> None:
    for dtype in TYPES:
        for heads in ((4, 4), (8, 1)):
            batch = oracle.make_batch(
                [1] * 5, [1, 500, 33, 64, 0], heads, (128, 64), dtype)
            plan = ops.plan_attention(batch.kv_indptr, None, *heads, 128, 64)
            out, lse = ops.batch_decode_ragged(
                plan.plan, batch.q, batch.k, batch.v,
                split_bytes=plan.split_bytes)
            wanted, sums = oracle.attention(batch)
            near(out, wanted, batch)
            assert bool((lse[4] == -math.inf).all())
            assert oracle.error(lse[:4], sums[:4]) <= 1e-4
        covers("batch_decode_ragged", dtype, "ragged lengths, groups")


@pytest.mark.parametrize("dtype", TYPES)
def test_merge_states(ops: Any, covers: Any, dtype: torch.dtype) -> None:
    """Parts of the keys, merged, are the whole; an empty part is ignored."""
    batch = oracle.make_batch([6], [90], (4, 2), (64, 64), dtype)
    _, lse = ops.single_prefill(batch.q, batch.k, batch.v)
    parts = [ops.single_prefill(batch.q, batch.k[a:b], batch.v[a:b])
             for a, b in ((0, 30), (30, 30), (30, 90))]
    parts[1][0].fill_(math.nan)  # an empty part's values are not looked at
    v = torch.stack([p[0] for p in parts], 1)
    s = torch.stack([p[1] for p in parts], 1)
    out, sums = ops.merge_states(v, s)
    exact, _ = oracle.attention(batch)
    near(out, exact, batch)
    assert oracle.error(sums, lse) <= 1e-5
    out, sums = ops.merge_state(*parts[0], *parts[2])
    near(out, exact, batch)
    nothing = torch.full((6, 4), -math.inf)
    out, sums = ops.merge_state(parts[1][0], nothing, parts[1][0], nothing)
    assert bool((out == 0).all()) and torch.equal(sums, nothing)
    covers("merge_state", dtype, "empty parts")
    covers("merge_states", dtype, "empty parts")


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("settings", [
    {}, {"causal": True}, {"causal": True, "window_left": 9},
    {"logits_soft_cap": 3.0}, {"pos_encoding_mode": "ROPE_LLAMA"},
    {"pos_encoding_mode": "ALIBI", "logits_soft_cap": 9.0}, {"masked": True}])
def test_gradient(
    ops: Any, covers: Any, dtype: torch.dtype, settings: dict[str, Any]
) -> None:
    settings = dict(settings)
    masked = settings.pop("masked", False)
    low = oracle.make_batch(
        [70, 1, 0, 9, 5], [150, 3, 4, 2, 5], (4, 2), (64, 48), dtype, masked)
    high = oracle.Batch(
        *(t.double().requires_grad_() for t in (low.q, low.k, low.v)),
        low.qo_indptr, low.kv_indptr, low.masks)
    for t in (low.q, low.k, low.v):
        t.requires_grad_()
    grad = torch.randn(85, 4, 48).to(dtype)
    out, lse = run(ops, low, **settings)
    wanted, sums = oracle.attention(high, **settings)
    out.backward(grad)
    # A row that sees nothing has no gradient, where the oracle's has NaN.
    seen = (sums != -math.inf).nonzero()
    rows = (seen[:, 0], seen[:, 1])
    (wanted[rows] * grad.double()[rows]).sum().backward()
    own = oracle.Batch(
        *(t.detach().clone().requires_grad_() for t in (low.q, low.k, low.v)),
        low.qo_indptr, low.kv_indptr, low.masks)
    # The gradient of plain operators: SDPA's with a mask keeps f32 inside.
    same = oracle.attention_by_torch(own, is_plain=True, **settings)
    (same[rows] * grad[rows]).sum().backward()
    for a, b, c in ((low.q, high.q, own.q), (low.k, high.k, own.k),
                    (low.v, high.v, own.v)):
        assert a.grad is not None and b.grad is not None
        assert c.grad is not None
        oracle.close(a.grad, b.grad.nan_to_num(0), c.grad.nan_to_num(0))
    covers("batch_prefill_ragged", dtype, "gradient")
