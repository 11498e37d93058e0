# SPDX-License-Identifier: Apache-2.0
"""The operator library's CUDA kernels on a GPU, beside torch in float64.

    python3 -m pytest -q -rA tests/gpu/test_ops.py
    python3 tests/gpu/test_ops.py            the times alone

Modules are those of $OPGRAFT_MODULES, else of build/modules. Times are those of
CUDA events over a replayed graph, whose calls have inputs of their own, so that
caches hold few of them; a bandwidth is also a part of a copy's on the device.
"""

from __future__ import annotations

import os
import pathlib
import sys
import time
from typing import Any, Callable

import pytest
import torch
import torch.nn.functional as F

import opgraft

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODULES = pathlib.Path(os.environ.get("OPGRAFT_MODULES", ROOT / "build/modules"))
TYPES = [torch.float32, torch.bfloat16, torch.float16]
TOLERANCE = {torch.float32: 2e-5, torch.bfloat16: 1e-2, torch.float16: 2e-3}
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(),
                                reason="needs a CUDA device")
_modules: dict[str, Any] = {}


def module(name: str) -> Any:
    if name not in _modules:
        begin = time.perf_counter()
        _modules[name] = opgraft.load(str(MODULES / f"{name}.so"))
        print(f"loaded {name} in {time.perf_counter() - begin:.3f} s")
    return _modules[name]


def random(*shape: int, dtype: torch.dtype, seed: int = 0) -> torch.Tensor:
    g = torch.Generator("cpu").manual_seed(seed + sum(shape))
    return torch.randn(*shape, generator=g, dtype=torch.float64).to(
        "cuda", dtype)


def close(found: torch.Tensor, wanted: torch.Tensor, what: str) -> None:
    assert found.is_cuda and found.shape == wanted.shape, (what, found.shape)
    limit = TOLERANCE[found.dtype]
    error = (found.double() - wanted.double()).abs() / (wanted.double().abs() + 1)
    worst = error.max().item() if error.numel() else 0.0
    assert worst <= limit, f"{what}: off by {worst:.3g}, expected {limit:.3g}"


# --- Norms and gates ----------------------------------------------------------

def norm(x: torch.Tensor, w: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    x = x.double()
    return x * (x.square().mean(-1, keepdim=True) + eps).rsqrt() * w.double()


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("width", [1, 7, 64, 128, 129, 1000, 4096, 5120, 16384,
                                   20001])
@pytest.mark.parametrize("rows", [0, 1, 33])
def test_rms_norm(rows: int, width: int, dtype: torch.dtype) -> None:
    x, w = random(rows, width, dtype=dtype), random(width, dtype=dtype)
    close(module("rms_norm").rms_norm(x, w), norm(x, w), "rms_norm")
    y = module("gemma_rms_norm").gemma_rms_norm(x, w)
    close(y, norm(x, w.double() + 1), "gemma_rms_norm")
    residual = random(rows, width, dtype=dtype, seed=1)
    total = (x.float() + residual.float()).to(dtype)
    a, b = x.clone(), residual.clone()
    module("fused_add_rms_norm").fused_add_rms_norm(a, b, w)
    close(b, total, "residual")
    close(a, norm(total, w), "fused_add_rms_norm")


def test_rms_norm_unaligned() -> None:
    flat = random(4097, dtype=torch.bfloat16)
    x, w = flat[1:].view(4, 1024), random(1024, dtype=torch.bfloat16)
    close(module("rms_norm").rms_norm(x, w), norm(x, w), "rms_norm")


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("half", [1, 5, 64, 1003, 11008])
def test_gates(half: int, dtype: torch.dtype) -> None:
    m = module("gated_activations")
    x = random(5, 2 * half, dtype=dtype)
    a, b = x.double().chunk(2, -1)
    close(m.silu_and_mul(x), F.silu(a) * b, "silu_and_mul")
    close(m.gelu_and_mul(x), F.gelu(a) * b, "gelu_and_mul")
    close(m.gelu_tanh_and_mul(x), F.gelu(a, approximate="tanh") * b,
          "gelu_tanh_and_mul")


# --- Rotation and caches ------------------------------------------------------

def turned(x: torch.Tensor, positions: torch.Tensor, rotary: int,
           interleave: bool, theta: float) -> torch.Tensor:
    half = rotary // 2
    i = torch.arange(half, dtype=torch.float64, device=x.device)
    angle = positions.double()[:, None] * theta ** (-i / half)
    cos, sin = angle.cos()[:, None], angle.sin()[:, None]
    y = x.double().clone()
    if interleave:
        a, b = y[..., 0:rotary:2].clone(), y[..., 1:rotary:2].clone()
        y[..., 0:rotary:2] = a * cos - b * sin
        y[..., 1:rotary:2] = b * cos + a * sin
    else:
        a, b = y[..., :half].clone(), y[..., half:rotary].clone()
        y[..., :half], y[..., half:rotary] = a * cos - b * sin, b * cos + a * sin
    return y


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("width,rotary", [(128, 128), (64, 32), (6, 6), (80, 20),
                                          (512, 512)])
@pytest.mark.parametrize("interleave", [False, True])
def test_rope(width: int, rotary: int, interleave: bool,
              dtype: torch.dtype) -> None:
    m = module("apply_rope")
    for positions in (torch.arange(9, dtype=torch.int32, device="cuda"),
                      torch.randint(0, 1 << 20, (3,), device="cuda")):
        n = len(positions)
        q = random(n, 8, width, dtype=dtype)
        kv = random(n, 2, 2, width, dtype=dtype, seed=1)
        k = kv[:, 0]  # with room between tokens
        found = m.apply_rope(q, k, positions, rotary_dim=rotary,
                             interleave=interleave)
        for x, y, name in zip((q, k), found, "qk"):
            wanted = turned(x, positions, rotary, interleave, 1e4)
            close(y, wanted, f"apply_rope, {name}")
        close(m.apply_rope_inplace(q.clone(), k.clone(), positions,
                                   rotary_dim=rotary, interleave=interleave)[0],
              found[0], "apply_rope_inplace")


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("width", [128, 64, 3])
def test_caches(width: int, dtype: torch.dtype) -> None:
    m = module("kv_cache")
    pages, size, heads, tokens = 12, 16, 4, 50
    key, value = (random(tokens, heads, width, dtype=dtype, seed=s)
                  for s in (1, 2))
    k, v = (torch.zeros(pages, size, heads, width, dtype=dtype, device="cuda")
            for _ in range(2))
    slots = torch.randperm(pages * size, device="cuda")[:tokens]
    slots[3] = -1
    m.reshape_and_cache(key, value, k, v, slots)
    wanted = torch.zeros(pages * size, heads, width, dtype=dtype, device="cuda")
    kept = slots >= 0
    wanted[slots[kept]] = key[kept]
    assert torch.equal(k.view_as(wanted), wanted)
    wanted[slots[kept]] = value[kept]
    assert torch.equal(v.view_as(wanted), wanted)

    def ints(values: Any) -> torch.Tensor:
        return torch.as_tensor(values, dtype=torch.int32, device="cuda")
    indices = ints(list(range(pages - 1, -1, -1)))
    batch = ints([i % 2 for i in range(tokens)])
    positions = ints([i // 2 for i in range(tokens)])
    k.zero_(), v.zero_()
    m.append_paged_kv_cache(key, value, batch, positions, k, v, indices,
                            ints([0, 6, 12]), ints([16, 16]))
    for i in range(tokens):
        page = indices[(i % 2) * 6 + (i // 2) // size].item()
        assert torch.equal(k[page, (i // 2) % size], key[i])
        assert torch.equal(v[page, (i // 2) % size], value[i])


# --- Decode -------------------------------------------------------------------

def plan_of(lengths: list[int], heads: int, kv_heads: int, width: int,
            page: int, **options: Any) -> tuple[torch.Tensor, int]:
    m = module("attention_plan")
    counts = [-(-n // page) if page else n for n in lengths]
    indptr = torch.tensor([0, *counts], dtype=torch.int32).cumsum(0).int()
    last = torch.tensor([n - (-(-n // page) - 1) * page if n else 0
                         for n in lengths],
                        dtype=torch.int32) if page else None
    threads = 2 * torch.cuda.get_device_properties(0).multi_processor_count
    args = (indptr, None, last, heads, kv_heads, width, width, page)
    options = {"threads": threads, "heads_first": True, **options}
    size = int(m.attention_plan_size(*args, **options))
    plan = m.attention_plan(*args, **options, size=size)
    return plan.cuda(), int(m.attention_plan_info(plan)[1])


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor,
              lengths: list[int], cap: float = 0) -> torch.Tensor:
    out, at = [], 0
    group = q.shape[1] // k.shape[1]
    for row, n in zip(q.double(), lengths):
        keys = k[at:at + n].double().repeat_interleave(group, 1)
        values = v[at:at + n].double().repeat_interleave(group, 1)
        s = torch.einsum("hd,nhd->hn", row, keys) * q.shape[-1] ** -0.5
        s = cap * (s / cap).tanh() if cap else s
        out.append(torch.einsum("hn,nhd->hd", s.softmax(-1), values))
        at += n
    return torch.stack(out)


def decode_check(lengths: list[int], heads: int, kv_heads: int, width: int,
                 page: int, dtype: torch.dtype, cap: float) -> None:
    total = sum(lengths)
    q = random(len(lengths), heads, width, dtype=dtype)
    k, v = (random(total, kv_heads, width, dtype=dtype, seed=s)
            for s in (1, 2))
    plan, split = plan_of(lengths, heads, kv_heads, width, page)
    options = {"split_bytes": split, "logits_soft_cap": cap, "lse_base": "e"}
    if page:
        counts = [-(-n // page) for n in lengths]
        indices = torch.randperm(sum(counts), dtype=torch.int32).cuda()
        cache = [torch.zeros(sum(counts), page, kv_heads, width, dtype=dtype,
                             device="cuda") for _ in range(2)]
        at = entry = 0
        for n, count in zip(lengths, counts):
            token = torch.arange(n, device="cuda")
            where = indices[entry + token // page].long(), token % page
            cache[0][where], cache[1][where] = k[at:at + n], v[at:at + n]
            at, entry = at + n, entry + count
        out, lse = module("batch_decode_paged").batch_decode_paged(
            plan, q, cache[0], cache[1], indices, **options)
    else:
        out, lse = module("batch_decode_ragged").batch_decode_ragged(
            plan, q, k, v, **options)
    wanted = attention(q, k, v, lengths, cap).nan_to_num(0)
    for i, n in enumerate(lengths):
        close(out[i], wanted[i], f"batch_decode, request {i} of {n} keys, "
              f"heads {heads}/{kv_heads}, width {width}, page {page}, cap {cap}")
        assert (lse[i].isfinite() if n else lse[i].isneginf()).all(), (i, n)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("heads,kv_heads", [(1, 1), (8, 8), (8, 2), (32, 4),
                                            (24, 2)])
@pytest.mark.parametrize("width", [64, 128, 80, 256, 6])
@pytest.mark.parametrize("page", [0, 1, 16])
def test_decode(page: int, width: int, heads: int, kv_heads: int,
                dtype: torch.dtype) -> None:
    for cap in (0.0, 5.0):
        decode_check([1, 0, 700, 33, 5000], heads, kv_heads, width, page, dtype,
                     cap)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("group", [2, 3, 4, 5, 8, 16, 20])
@pytest.mark.parametrize("width", [64, 128])
@pytest.mark.parametrize("page", [0, 16])
def test_decode_grouped(page: int, width: int, group: int,
                        dtype: torch.dtype) -> None:
    """By tensor cores, with every number of keys that a warp's 16, a block's
    64 and a tile's 256 may end with."""
    lengths = [1, 7, 8, 15, 16, 17, 0, 63, 64, 65, 127, 128, 129, 255, 256, 257,
               3001]
    decode_check(lengths, 2 * group, 2, width, page, dtype, 0.0)


def test_decode_refuses_a_position_encoding() -> None:
    plan, split = plan_of([4], 1, 1, 64, 0)
    x = random(4, 1, 64, dtype=torch.float32)
    with pytest.raises(Exception, match="batch_decode_ragged") as caught:
        module("batch_decode_ragged").batch_decode_ragged(
            plan, x[:1], x, x, pos_encoding_mode="ALIBI", split_bytes=split)
    print(caught.value)


# --- Streams, graphs ----------------------------------------------------------

def test_stream() -> None:
    m = module("rms_norm")
    w = random(4096, dtype=torch.bfloat16)
    stream = torch.cuda.Stream()
    for _ in range(20):
        x = random(512, 4096, dtype=torch.bfloat16)
        with torch.cuda.stream(stream):
            stream.wait_stream(torch.cuda.default_stream())
            torch.cuda._sleep(1_000_000)  # what runs too early reads ones
            x = x * 1.5
            y = m.rms_norm(x, w)
        stream.synchronize()
        close(y, norm(x, w), "on a stream")


def test_graph() -> None:
    norms, gates = module("rms_norm"), module("gated_activations")
    x, w = (random(*s, dtype=torch.float16) for s in ((64, 2048), (2048,)))

    def step() -> torch.Tensor:
        return gates.silu_and_mul(norms.rms_norm(x, w))
    step()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = step()
    for seed in (3, 4):
        x.copy_(random(64, 2048, dtype=torch.float16, seed=seed))
        graph.replay()
        torch.cuda.synchronize()
        a, b = norm(x, w).half().double().chunk(2, -1)
        close(y, F.silu(a) * b, "in a graph")


def test_decode_graph() -> None:
    lengths = [900, 3000, 17]
    plan, split = plan_of(lengths, 32, 8, 128, 0)
    q = random(3, 32, 128, dtype=torch.bfloat16)
    k, v = (random(sum(lengths), 8, 128, dtype=torch.bfloat16, seed=s)
            for s in (1, 2))

    def step() -> torch.Tensor:
        return module("batch_decode_ragged").batch_decode_ragged(
            plan, q, k, v, split_bytes=split)[0]
    step()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = step()
    q.copy_(random(3, 32, 128, dtype=torch.bfloat16, seed=9))
    graph.replay()
    torch.cuda.synchronize()
    close(y, attention(q, k, v, lengths), "decode in a graph")


# --- Times --------------------------------------------------------------------

def time_us(step: Callable[[int], Any], repeats: int = 20) -> float:
    """Median of replays of a graph of calls, each on inputs of its own."""
    for i in range(3):
        step(i)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for i in range(repeats):
            step(i)
    times = []
    for _ in range(7):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1000 / repeats)
    return sorted(times)[3]


def copies(count_bytes: int) -> int:
    """Sets of inputs that no cache holds together."""
    return max(1, min(16, (256 << 20) // max(1, count_bytes)))


def line(name: str, moved: int, ours: float, theirs: float | None,
         copy_rate: float) -> None:
    rate = moved / ours / 1e3
    beside = "" if theirs is None else \
        f", torch {theirs:8.2f} us ({theirs / ours:5.2f} x)"
    print(f"{name:46} {ours:8.2f} us {rate:7.0f} GB/s "
          f"{100 * rate / copy_rate:5.0f} % of a copy{beside}", flush=True)


def copy_rate_get() -> float:
    a = torch.empty(512 << 20, dtype=torch.uint8, device="cuda")
    b = torch.empty_like(a)
    rate = 2 * a.numel() / time_us(lambda i: b.copy_(a), 4) / 1e3
    print(f"{torch.cuda.get_device_name()}: a copy of 512 MiB moves "
          f"{rate:.0f} GB/s, read and written")
    return rate


def drawn(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.bfloat16, device="cuda")


def time_norm(rate: float, rows: int, width: int) -> None:
    n = copies(2 * rows * width)
    xs, w, m = [drawn(rows, width) for _ in range(n)], drawn(width), module(
        "rms_norm")
    line(f"rms_norm bf16 [{rows}, {width}]", 4 * rows * width,
         time_us(lambda i: m.rms_norm(xs[i % n], w)),
         time_us(lambda i: F.rms_norm(xs[i % n], (width,), w, 1e-6)), rate)


def time_fused(rate: float, rows: int, width: int) -> None:
    n = copies(4 * rows * width)
    xs, rs = ([drawn(rows, width) for _ in range(n)] for _ in range(2))
    w, m = drawn(width), module("fused_add_rms_norm")

    def theirs(i: int) -> torch.Tensor:
        rs[i % n].add_(xs[i % n])
        return F.rms_norm(rs[i % n], (width,), w, 1e-6)
    line(f"fused_add_rms_norm bf16 [{rows}, {width}]", 8 * rows * width,
         time_us(lambda i: m.fused_add_rms_norm(xs[i % n], rs[i % n], w)),
         time_us(theirs), rate)


def time_gate(rate: float, rows: int, half: int) -> None:
    n = copies(4 * rows * half)
    xs = [drawn(rows, 2 * half) for _ in range(n)]
    m = module("gated_activations")

    def theirs(i: int) -> torch.Tensor:
        a, b = xs[i % n].chunk(2, -1)
        return F.silu(a) * b
    line(f"silu_and_mul bf16 [{rows}, 2 * {half}]", 6 * rows * half,
         time_us(lambda i: m.silu_and_mul(xs[i % n])), time_us(theirs), rate)


def time_rope(rate: float, tokens: int) -> None:
    n = copies(2 * tokens * 40 * 128)
    qs = [drawn(tokens, 32, 128) for _ in range(n)]
    ks = [drawn(tokens, 8, 128) for _ in range(n)]
    p = torch.arange(tokens, device="cuda", dtype=torch.int32)
    m = module("apply_rope")
    line(f"apply_rope bf16 [{tokens}, 32 + 8, 128]", 4 * tokens * 40 * 128,
         time_us(lambda i: m.apply_rope(qs[i % n], ks[i % n], p)), None, rate)


def time_cache(rate: float, tokens: int) -> None:
    n = copies(4 * tokens * 1024)
    keys, values = ([drawn(tokens, 8, 128) for _ in range(n)] for _ in range(2))
    k, v = (drawn(tokens // 16 + 1, 16, 8, 128) for _ in range(2))
    slots = torch.randperm(tokens, device="cuda")
    m = module("kv_cache")
    line(f"reshape_and_cache bf16 [{tokens}, 8, 128]", 8 * tokens * 1024,
         time_us(lambda i: m.reshape_and_cache(keys[i % n], values[i % n], k, v,
                                               slots)), None, rate)


def time_decode(rate: float, batch: int, length: int, heads: int,
                kv: int) -> None:
    m = module("batch_decode_ragged")
    plan, split = plan_of([length] * batch, heads, kv, 128, 0)
    q = drawn(batch, heads, 128)
    k, v = (drawn(batch * length, kv, 128) for _ in range(2))
    ks, vs = (x.view(batch, length, kv, 128).transpose(1, 2) for x in (k, v))

    def theirs(i: int) -> torch.Tensor:
        return F.scaled_dot_product_attention(q.unsqueeze(2), ks, vs,
                                              enable_gqa=True)

    def ours(i: int) -> torch.Tensor:
        return m.batch_decode_ragged(plan, q, k, v, split_bytes=split)[0]
    line(f"batch_decode bf16 {batch} x {length}, heads {heads}/{kv}",
         4 * k.numel(), time_us(ours, 4), time_us(theirs, 4), rate)


TIMED: list[tuple[Callable[..., None], list[tuple[int, ...]]]] = [
    (time_norm, [(16, 4096), (512, 4096), (8192, 4096), (8192, 8192),
                 (65536, 128)]),
    (time_fused, [(16, 4096), (8192, 4096)]),
    (time_gate, [(16, 14336), (4096, 14336)]),
    (time_rope, [(64,), (8192,)]),
    (time_cache, [(64,), (8192,)]),
    (time_decode, [(1, 32768, 32, 8), (16, 4096, 32, 8), (8, 8192, 32, 8),
                   (64, 2048, 32, 32), (64, 4096, 64, 8)]),
]


def test_times() -> None:
    """Prints; fails at nothing but errors."""
    rate = copy_rate_get()
    failed = []
    for part, calls in TIMED:
        for sizes in calls:
            try:
                part(rate, *sizes)
            except Exception as error:  # the other times still count
                failed.append(f"{part.__name__}{sizes}: {error}")
    assert not failed, failed


if __name__ == "__main__":
    print(torch.__version__, torch.version.cuda, sys.version.split()[0])
    test_times()
