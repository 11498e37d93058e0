# SPDX-License-Identifier: Apache-2.0
"""Whose threads a plan runs on. A plan on the engine's team never wakes torch's
pool, whose workers spin at a barrier: beside other processes that costs
multiples of the time, so a node that brings the pool back is a fault of the
engine's, and shows here without a clock."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from compare import compiled, no_worse
from torch.nn import functional as F

import opgraft

sys.path.append(str(Path(__file__).resolve().parents[3] / "bench"))
import graph_set  # noqa: E402

T = torch.Tensor
CALLS = 5
pytestmark = pytest.mark.skipif(
    len(os.sched_getaffinity(0)) < 2, reason="there is one processor")


@pytest.fixture(autouse=True)
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    with torch.no_grad():
        yield
    torch.set_num_threads(before)


# --- Small forms of the graphs of bench/graphs.py -------------------------------


def custom_block(monkeypatch: pytest.MonkeyPatch) -> graph_set.Built:
    monkeypatch.setattr(graph_set.Block, "WIDTH", 128)
    monkeypatch.setattr(graph_set.Block, "HEADS", 2)
    return graph_set.make("custom_block", False)


def llama_decode(monkeypatch: pytest.MonkeyPatch) -> graph_set.Built:
    monkeypatch.setattr(graph_set.Llama, "INNER", 512)
    monkeypatch.setattr(graph_set.Llama, "WORDS", 512)
    return graph_set.make("llama_decode", False)


def same(name: str) -> Callable[[pytest.MonkeyPatch], graph_set.Built]:
    return lambda _: graph_set.make(name, False)


def bert(_: pytest.MonkeyPatch) -> graph_set.Built:
    pytest.importorskip("transformers")
    ids = graph_set.tokens(32, 30522)
    model = graph_set.bert_model(1, 384, 12).eval()
    return graph_set.Built(model, (ids, torch.ones_like(ids)))


GRAPHS: dict[str, Callable[[pytest.MonkeyPatch], graph_set.Built]] = {
    "mlp": same("mlp"), "chain_200": same("chain_200"),
    "custom_block": custom_block, "llama_decode": llama_decode, "bert": bert}


def sleeps() -> dict[str, int]:
    """How often each other thread of the process went to sleep; -1: it is
    awake, be it without a processor."""
    own, out = str(os.getpid()), {}
    for task in Path("/proc/self/task").iterdir():
        try:
            lines = (task / "status").read_text().splitlines()
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended
        said = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
        out[task.name] = (int(said["voluntary_ctxt_switches"])
                          if said["State"].startswith("S") else -1)
    out.pop(own, None)
    return out


def settled() -> dict[str, int]:
    """The same, once all of them sleep: workers spin before they do."""
    found, calm = sleeps(), 0
    for _ in range(200):
        time.sleep(0.05)
        now = sleeps()
        calm = calm + 1 if now == found and -1 not in now.values() else 0
        found = now
        if calm == 3:
            return found
    raise RuntimeError("threads of this process never rest")


def torchs_pool() -> set[str]:
    """Its threads: those that every operator of torch's wakes."""
    before = settled()
    pools: list[set[str]] = []
    for _ in range(3):
        torch.ones(1 << 20).exp_()
        now = settled()
        pools.append({k for k in now if now[k] != before.get(k)})
        before = now
    pool = set.intersection(*pools)
    assert pool, pools
    return pool


@pytest.mark.parametrize("name", [
    pytest.param(n, marks=[pytest.mark.full] if n == "bert" else [])
    for n in GRAPHS])
def test_torchs_pool_sleeps(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rules = tmp_path / "rules"
    rules.write_text("attention: fast\n")  # of 16 queries, Intel's go to torch
    pool = torchs_pool()
    built = GRAPHS[name](monkeypatch)
    c = compiled(built.model, dynamic=False, options={
        "mode": "max-autotune", "tune_s": 0, "choose": str(rules)})
    for _ in range(CALLS):
        c(*built.args)
    (graph,) = opgraft.stats(c).graphs
    assert (graph["threads"], graph["host_loops"]) == ("engine", []), graph
    before = settled()
    for _ in range(CALLS):
        c(*built.args)
    after = settled()
    assert {k: after[k] for k in pool} == {k: before[k] for k in pool}


def test_a_node_that_brings_torchs_threads_is_listed() -> None:
    def f(x: T) -> T:
        return torch.relu(x.sort(-1).values) * 2

    c = compiled(f, options={"mode": "max-autotune", "tune_s": 0})
    c(torch.randn(64, 1024))
    stats = opgraft.stats(c)
    (graph,) = stats.graphs
    assert graph["threads"] == "host"
    assert [n["operator"] for n in graph["host_loops"]] == ["aten.sort.default"]
    assert "runs on torch's threads: aten.sort.default" in str(stats)


def test_training_runs_where_the_loss_does() -> None:
    model = torch.nn.Sequential(
        torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 64))
    c = compiled(model, options={"mode": "max-autotune", "tune_s": 0})
    with torch.enable_grad():
        c(torch.randn(16, 64)).square().mean().backward()
    with torch.no_grad():
        c(torch.randn(16, 64))
    threads = {g["kind"]: g["threads"] for g in opgraft.stats(c).graphs}
    assert threads == {
        "forward": "host", "backward": "host", "inference": "engine"}


def test_short_loops_wake_nobody() -> None:
    """A loop of two shares, and of a few microseconds: less than it takes to
    wake a worker. The first calls do, and find that out."""
    def f(x: T) -> T:
        return x.neg_()

    c = compiled(f, options={"mode": "max-autotune", "tune_s": 0})
    x = torch.randn(40000)
    woken = []
    for _ in range(20):
        before = settled()
        for _ in range(CALLS):
            time.sleep(0.01)
            c(x)
        after = settled()
        woken.append(sum(after[k] != before.get(k) for k in after))
        if woken[-1] == 0:
            break
    (graph,) = opgraft.stats(c).graphs
    assert graph["threads"] == "engine"
    assert woken[-1] == 0, woken


# --- The kernels that keep decoding off the pool --------------------------------


@pytest.mark.parametrize(("batch", "heads"), [(1, (4, 4)), (3, (6, 2))])
@pytest.mark.parametrize("keys", [37, 2100])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_attention_of_one_query(batch: int, heads: tuple[int, int], keys: int,
                                dtype: torch.dtype) -> None:
    def f(q: T, k: T, v: T) -> T:
        return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)

    # Keys as projections leave them: heads are neighbours.
    q, k, v = (torch.randn(batch, n, h, 48, dtype=dtype).transpose(1, 2)
               for n, h in ((1, heads[0]), (keys, heads[1]), (keys, heads[1])))
    c = compiled(f, options={"mode": "max-autotune", "tune_s": 0})
    no_worse(c(q, k, v), f(q, k, v), f(q.double(), k.double(), v.double()),
             slack=1e-6 if dtype is torch.float32 else 4e-3)
    assert ": fast" in opgraft.stats(c).rules()


@pytest.mark.parametrize("dim", [0, 1, 2, -1])
def test_cat_of_long_rows(dim: int) -> None:
    def f(*parts: T) -> T:
        return torch.cat(parts, dim)

    sizes = [[7, 24, 64, 32] for _ in range(3)]
    for part, size in zip((1, 16, 40), sizes, strict=True):
        size[dim] = part if dim != -1 else 32 * part
    parts = [torch.randn(s) for s in sizes]
    wide = torch.randn(*sizes[0][:3], 2 * sizes[0][3])[..., :sizes[0][3]]
    c = compiled(f, dynamic=False)
    for first in (parts[0], wide, parts[0].transpose(0, 1).contiguous()
                  .transpose(0, 1)):
        assert torch.equal(c(first, *parts[1:]), f(first, *parts[1:]))
    assert "cat " in opgraft.stats(c).rules()
    assert ": fast" in opgraft.stats(c).rules()


@pytest.mark.parametrize("dtype", [torch.float32, torch.int32, torch.int64])
@pytest.mark.parametrize("dim", [0, 1, 2, 3])
def test_cat_of_transposed_parts(dim: int, dtype: torch.dtype) -> None:
    def f(*parts: T) -> T:
        return torch.cat(parts, dim)

    sizes = [[3, 2, 37, 50] for _ in range(3)]
    for part, size in zip((1, 16, 41), sizes, strict=True):
        size[dim] = part + 16 * (dim == 3)
    parts = [torch.randint(-2**31, 2**31 - 1, s).to(torch.int32) for s in sizes]
    parts = [p.view(torch.float32) if dtype is torch.float32 else p.to(dtype)
             for p in parts]  # every pattern of bits, as NaNs have
    parts[1:] = [p.transpose(2, 3).contiguous().transpose(2, 3)
                 for p in parts[1:]]
    c = compiled(f, dynamic=False,
                 options={"mode": "max-autotune", "tune_s": 0})
    as_bits = torch.int64 if dtype is torch.int64 else torch.int32
    assert torch.equal(c(*parts).view(as_bits), f(*parts).view(as_bits))
    assert ": fast" in opgraft.stats(c).rules()
