# SPDX-License-Identifier: Apache-2.0
"""The graph modes on the simulated NPU: the CPU's numbers, one launch a replay,
no wait of the host inside, memory at the planner's bound."""

from __future__ import annotations

import gc
import json
from pathlib import Path
from typing import Any, Callable

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import opgraft

MODES = ["reduce-overhead", "max-autotune"]
T = torch.Tensor


@pytest.fixture(autouse=True)
def fresh() -> Any:
    torch._dynamo.reset()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()
    gc.collect()


def compiled(f: Any, mode: str, **options: Any) -> Any:
    return torch.compile(f, backend="opgraft", fullgraph=True,
                         options={"mode": mode, **options})


def graph_of(f: Any) -> dict[str, Any]:
    [graph] = opgraft.stats(f).graphs
    return graph


def perceptron() -> nn.Module:
    return nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32),
                         nn.Linear(32, 4))


@pytest.mark.parametrize("mode", MODES)
def test_a_replay_is_one_launch(npu: Any, mode: str) -> None:
    model, x = perceptron(), torch.randn(8, 16)
    wanted = model(x)
    model, there = model.npu(), x.npu()
    f = compiled(model, mode, fallback="error")
    with torch.no_grad():
        for _ in range(5):
            found = f(there)
            assert found.device == there.device
            torch.testing.assert_close(found.cpu(), wanted)
    graph = graph_of(f)
    assert graph["replays"] == graph["launches"] == 5
    assert graph["captures"] == 1 and graph["recaptures"] == 0
    assert graph["device_waits"] == 0
    assert graph["arena_bytes"] <= 1.03 * graph["lower_bound_bytes"]
    assert npu.stats()["fallbacks"] == {}


@pytest.mark.parametrize("mode", MODES)
def test_inputs_and_sizes_that_change(npu: Any, mode: str) -> None:
    model = perceptron()
    here = [torch.randn(n, 16) for n in (3, 7, 3, 5, 7, 2)]
    wanted = [model(x) for x in here]
    f = torch.compile(model.npu(), backend="opgraft", dynamic=True,
                      options={"mode": mode})
    with torch.no_grad():
        there = [x.npu() for x in here]
        for _ in range(2):
            for x, y in zip(there, wanted, strict=True):
                torch.testing.assert_close(f(x).cpu(), y)
    graph = graph_of(f)
    assert graph["replays"] == graph["launches"] == 12
    assert graph["captures"] == 4  # one of each size
    assert graph["device_waits"] == 0


@pytest.mark.parametrize("mode", MODES)
def test_lanes_are_streams(npu: Any, mode: str) -> None:
    """Branches on two streams, under delays and the race detector."""
    def f(x: T) -> T:
        a, b = x, x + 1
        for _ in range(3):
            a, b = a @ a, b @ b
        return a + b

    x = torch.randn(8, 8) / 8
    c = torch.compile(f, backend="opgraft", options={"mode": mode, "lanes": 2})
    there = x.npu()
    with torch.no_grad():
        for _ in range(5):
            torch.testing.assert_close(c(there).cpu(), f(x))
    graph = graph_of(c)
    assert graph["sections"] == 1 and graph["captures"] == 1
    assert graph["launches"] == 5 and graph["device_waits"] == 0
    assert npu.stats()["fallbacks"] == {}


class Encoder(nn.Module):
    """A BERT of two layers."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.words = nn.Embedding(50, width)
        self.places = nn.Embedding(16, width)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 4, 64, dropout=0.0,
                                       activation="gelu", batch_first=True)
            for _ in range(2))
        self.out = nn.Linear(width, 50)

    def forward(self, ids: T) -> T:
        x = self.words(ids) + self.places(
            torch.arange(ids.shape[1], device=ids.device))
        for layer in self.layers:
            x = layer(x)
        return self.out(x)


@pytest.mark.parametrize("mode", MODES)
def test_an_encoder(npu: Any, mode: str) -> None:
    model, ids = Encoder(), torch.randint(0, 50, (2, 9))
    wanted = model(ids)
    model, there = model.npu(), ids.npu()
    aot = torch.compile(model, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(aot(there).cpu(), wanted, rtol=1e-4, atol=1e-5)
    npu.fallbacks.clear()
    f = compiled(model, mode, fallback="error")
    with torch.no_grad():
        for _ in range(3):
            torch.testing.assert_close(f(there).cpu(), wanted, rtol=1e-4,
                                       atol=1e-5)
    graph = graph_of(f)
    assert graph["launches"] == 3 and graph["device_waits"] == 0
    assert graph["arena_bytes"] <= 1.03 * graph["lower_bound_bytes"]
    assert npu.stats()["fallbacks"] == {}


class Decoder(nn.Module):
    """One layer of a Llama: RMS norm, rotary embedding, a KV cache that is
    written in place, SwiGLU."""

    def __init__(self, width: int = 32, heads: int = 4, length: int = 12
                 ) -> None:
        super().__init__()
        self.heads, self.length = heads, length
        self.words = nn.Embedding(40, width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.gate = nn.Linear(width, 2 * width, bias=False)
        self.up = nn.Linear(width, 2 * width, bias=False)
        self.down = nn.Linear(2 * width, width, bias=False)
        self.head = nn.Linear(width, 40, bias=False)
        for name in ("keys", "values"):
            self.register_buffer(
                name, torch.zeros(1, heads, length, width // heads))

    def norm(self, x: T) -> T:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)

    def turn(self, x: T, at: T) -> T:
        half = x.shape[-1] // 2
        by = at * torch.pow(0.1, torch.arange(half, device=x.device) / half)
        a, b = x[..., :half], x[..., half:]
        return torch.cat((a * by.cos() - b * by.sin(),
                          a * by.sin() + b * by.cos()), -1)

    def forward(self, token: T, at: T) -> T:
        x = self.words(token)
        q, k, v = self.qkv(self.norm(x)).reshape(
            1, 1, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        self.keys.index_copy_(2, at, self.turn(k, at))
        self.values.index_copy_(2, at, v)
        scores = self.turn(q, at) @ self.keys.transpose(-1, -2)
        places = torch.arange(self.length, device=x.device)
        scores = scores.masked_fill(places > at, float("-inf"))
        mixed = torch.softmax(scores / 8 ** 0.5, -1) @ self.values
        x = x + self.out(mixed.transpose(1, 2).reshape(1, 1, -1))
        y = self.norm(x)
        return self.head(x + self.down(F.silu(self.gate(y)) * self.up(y)))


def decode(model: nn.Module, step: Callable[[T, T], T], device: str
           ) -> list[T]:
    """The logits of eight greedy steps."""
    token = torch.tensor([[1]], device=device)
    found = []
    with torch.no_grad():
        for i in range(8):
            logits = step(token, torch.tensor([i], device=device))
            found.append(logits.cpu())
            token = logits.argmax(-1)
    return found


@pytest.mark.parametrize("mode", MODES)
def test_decoding_with_a_cache(npu: Any, mode: str) -> None:
    model = Decoder()
    wanted = decode(model, model, "cpu")
    model.keys.zero_(), model.values.zero_()
    model = model.npu()
    f = compiled(model, mode, fallback="error", clone="error")
    address = model.keys.data_ptr()
    torch.testing.assert_close(decode(model, f, "npu"), wanted)
    assert model.keys.data_ptr() == address
    assert model.keys.cpu()[0, :, :8].abs().sum() > 0
    assert model.keys.cpu()[0, :, 8:].abs().sum() == 0
    graph = graph_of(f)
    assert graph["launches"] == 8 and graph["captures"] == 1
    assert graph["device_waits"] == 0 and graph["clone_bytes"] == 0


def digits(count: int = 64) -> tuple[T, T]:
    """Rows of pixels that tell ten classes apart."""
    g = torch.Generator().manual_seed(1)
    y = torch.arange(count) % 10
    return torch.randn(10, 64, generator=g)[y] + 0.3 * torch.randn(
        count, 64, generator=g), y


def train(device: str, wrap: Callable[[Any], Any]) -> tuple[list[float], Any]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.LayerNorm(32),
                          nn.Linear(32, 10)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.02)
    x, y = (t.to(device) for t in digits())
    loss_of = wrap(lambda x, y: F.cross_entropy(model(x), y))
    step = wrap(optimizer.step)
    losses = []
    for _ in range(6):
        loss = loss_of(x, y)
        loss.backward()
        step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses, (loss_of, step)


@pytest.mark.parametrize("mode", MODES)
def test_training(npu: Any, mode: str, monkeypatch: pytest.MonkeyPatch
                  ) -> None:
    wanted, _ = train("cpu", lambda f: f)
    assert wanted[-1] < 0.5 * wanted[0]
    monkeypatch.setenv("OPGRAFT_FALLBACK", "error")
    found, fs = train("npu", lambda f: torch.compile(
        f, backend="opgraft", options={"mode": mode, "fallback": "error"}))
    torch.testing.assert_close(torch.tensor(found), torch.tensor(wanted),
                               rtol=1e-4, atol=1e-5)
    for graph in (g for f in fs for g in opgraft.stats(f).graphs):
        assert graph["fallbacks"] == []
        assert graph["arena_bytes"] <= 1.03 * graph["lower_bound_bytes"]
    assert npu.stats()["fallbacks"] == {}


def test_other_backends_train_alike(npu: Any) -> None:
    wanted, _ = train("cpu", lambda f: f)
    found, _ = train("npu", lambda f: torch.compile(f, backend="aot_eager"))
    torch.testing.assert_close(torch.tensor(found), torch.tensor(wanted),
                               rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("mode", MODES)
def test_two_graphs_share_an_arena(npu: Any, mode: str) -> None:
    def steps(x: T) -> T:
        y = torch.cumsum(x, 0)
        return torch.cumsum(torch.flip(torch.cumsum(y, 1), [0]), 1)

    def others(x: T) -> T:
        return torch.cumsum(torch.flip(torch.cumsum(x, 1), [1]), 0)

    x = torch.randn(64, 64)
    fs = [compiled(f, mode) for f in (steps, others)]
    for _ in range(3):
        for f, plain in zip(fs, (steps, others), strict=True):
            torch.testing.assert_close(f(x.npu()).cpu(), plain(x))
    arenas = [graph_of(f)["arena_bytes"] for f in fs]
    assert min(arenas) > 0
    assert graph_of(fs[0])["shared_bytes"] == min(arenas)


def test_between_the_cpu_and_the_device(npu: Any) -> None:
    def f(x: T) -> tuple[T, T]:
        y = (x.npu() * 2).exp()
        z = y.sum(1).cpu() + x[:, 0]
        return z, (z.npu() + y[:, 1]).cpu()

    x = torch.randn(4, 6) / 4
    g = compiled(f, "reduce-overhead", fallback="error")
    for _ in range(3):
        torch.testing.assert_close(g(x), f(x))
    graph = graph_of(g)
    assert graph["captures"] == 1 and graph["fallbacks"] == []
    assert graph["device_waits"] == 4 * 3


def test_copies_that_change_type_and_layout(npu: Any) -> None:
    def f(x: T, n: T, cache: T) -> tuple[T, ...]:
        y = x.npu() * n  # a number of the CPU's
        cache.copy_(y.t().cpu())
        there = torch.zeros(6, 4, device="npu")
        there.copy_(x.t())
        return (y.t().cpu(), y.to("cpu", torch.float64),
                x.t().to("npu", torch.float64).cpu(), there[1:, ::2].cpu())

    x, n = torch.randn(4, 6), torch.tensor(3.0)
    g = compiled(f, "reduce-overhead", fallback="error")
    for _ in range(2):
        caches = torch.zeros(6, 4), torch.zeros(6, 4)
        for a, b in zip(g(x, n, caches[0]), f(x, n, caches[1]), strict=True):
            torch.testing.assert_close(a, b)
        torch.testing.assert_close(*caches)
        n += 1


@torch.library.custom_op("device_graph::add_row", mutates_args={"x"})
def add_row(x: T, by: float) -> None:
    x[0] += by


def test_what_the_host_writes_in_place(npu: Any) -> None:
    """An operator of the CPU's that updates a copy of its argument."""
    def f(x: T) -> T:
        y = x.clone()
        add_row(y, 3.0)
        return y + x

    x = torch.randn(4, 6)
    g = compiled(f, "reduce-overhead")
    for _ in range(3):
        there = x.npu()
        torch.testing.assert_close(g(there).cpu(), f(x))
        torch.testing.assert_close(there.cpu(), x)


def test_inputs_as_files(npu: Any, tmp_path: Path) -> None:
    x = torch.randn(3, 4)
    g = compiled(lambda x: x * 2, "reduce-overhead", repro=str(tmp_path),
                 repro_calls="all")
    g(x.npu().t())
    [path] = tmp_path.rglob("input-0.npy")
    assert (np.load(path) == x.t().numpy()).all()


def test_what_only_the_host_runs(npu: Any) -> None:
    """torch's operator runs on copies, between two captures."""
    def f(x: T) -> T:
        y = x * 2 + x.sin()
        return torch.linalg.inv(y @ y.t() + torch.eye(5, device=x.device)) * y

    x = torch.randn(5, 5)
    g = compiled(f, "reduce-overhead")
    for _ in range(3):
        torch.testing.assert_close(g(x.npu()).cpu(), f(x), rtol=1e-4,
                                   atol=1e-4)
    found = {n["operator"] for n in graph_of(g)["fallbacks"]}
    assert found == {
        "aten.linalg_inv_ex.default", "aten._linalg_check_errors.default"}
    torch._dynamo.reset()
    with pytest.raises(Exception, match="linalg_inv_ex"):
        compiled(f, "reduce-overhead", fallback="error")(x.npu())


@pytest.mark.parametrize("mode", MODES)
def test_an_operator_with_a_kernel_for_it(npu: Any, scaling: Any, mode: str
                                          ) -> None:
    def f(x: T) -> T:
        return scaling.scale(x + 1, 2.0).relu() + scaling.scale(x, 3.0)

    x = torch.randn(6)
    wanted = (2 * (x + 1)).relu() + 3 * x
    g = compiled(f, mode, fallback="error")
    for _ in range(3):
        torch.testing.assert_close(g(x.npu()).cpu(), wanted)
    assert graph_of(g)["launches"] == 3


def test_a_list_and_a_workspace(npu: Any, scaling: Any) -> None:
    def f(a: T, b: T) -> T:
        return scaling.total([a + 1, b, a * 2]) * 3

    g = compiled(f, "reduce-overhead", fallback="error")
    for _ in range(3):
        made = g(torch.ones(3).npu(), torch.full((2,), 10.0).npu())
        assert made.cpu().tolist() == [3.0 * (6 + 20 + 6)]
    assert graph_of(g)["launches"] == 3


def test_an_operator_of_the_cpu_alone(npu: Any, scaling: Any) -> None:
    """It runs on copies, as in eager mode, and is counted."""
    g = compiled(lambda x: scaling.only_cpu(x + 1) * 2, "reduce-overhead")
    for _ in range(2):
        assert g(torch.ones(1).npu()).cpu().tolist() == [8.0]
    assert npu.stats()["fallbacks"] == {"scaling.only_cpu.default": 2}


def test_the_callers_stream(npu: Any) -> None:
    """Calls on two streams, which share the graph's arena and launches."""
    def f(x: T) -> T:
        return torch.cumsum(torch.flip(torch.cumsum(x, 0), [0]), 0).sin()

    x = torch.randn(32, 4)
    g = compiled(f, "reduce-overhead")
    there = x.npu()
    g(there)
    streams = [torch.npu.Stream(), torch.npu.Stream()]
    torch.npu.synchronize()
    made = []
    for i in range(6):
        with torch.npu.stream(streams[i % 2]):
            made.append(g(there))
    for stream in streams:
        stream.synchronize()
    for y in made:
        torch.testing.assert_close(y.cpu(), f(x))


def test_memory_comes_back(npu: Any) -> None:
    model, x = perceptron().npu(), torch.randn(8, 16).npu()

    def live() -> int:
        gc.collect()
        torch.npu.synchronize()
        return torch.npu.memory_allocated()

    before = live()
    f = compiled(model, "reduce-overhead")
    with torch.no_grad():
        for _ in range(3):
            f(x)
        assert live() == before
        kept = f(x)
        assert live() > before
    del kept, f
    torch._dynamo.reset()
    assert live() == before


@pytest.mark.parametrize("mode", MODES)
def test_frozen(npu: Any, mode: str) -> None:
    model, here = perceptron(), [torch.randn(8, 16) for _ in range(3)]
    on_cpu = opgraft.freeze(perceptron(), (here[0],), options={"mode": mode})
    with torch.no_grad():
        wanted = [model(x) for x in here]
        call = opgraft.freeze(model.npu(), (here[0].npu(),),
                              options={"mode": mode})
        for x, y in zip(here, wanted):
            torch.testing.assert_close(call(x.npu()).cpu(), y)
    assert json.loads(call.graph.stats())["captures"] == 1
    with pytest.raises(RuntimeError, match="is on cpu, .*frozen for npu:0"):
        call(here[0])
    with pytest.raises(RuntimeError, match=r"is f32\[9, 16\], .*f32\[8, 16\]"):
        call(torch.ones(9, 16).npu())
    with pytest.raises(RuntimeError, match="is on npu:0, .*frozen for cpu"):
        on_cpu(here[0].npu())


def test_frozen_with_sizes_that_vary(npu: Any) -> None:
    batch = torch.export.Dim("batch", min=2, max=16)
    call = opgraft.freeze(lambda x: torch.relu(x) + 1, (torch.ones(4, 3).npu(),),
                          dynamic_shapes=({0: batch},))
    for n in (2, 9, 16):
        x = torch.randn(n, 3)
        torch.testing.assert_close(call(x.npu()).cpu(), torch.relu(x) + 1)
    with pytest.raises(RuntimeError, match="size 0 is 17, .*2 to 16"):
        call(torch.ones(17, 3).npu())
