#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Captures on a real CUDA device, beside eager mode.

With pytest, or as a program where there is none: it runs every test, prints
what failed with its traceback and the graphs' stats, and ends with
`N passed, N failed`. `--smoke` runs fewer calls.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
import traceback
from typing import Any, Callable

import torch

import opgraft

IS_SMOKE = "--smoke" in sys.argv or bool(os.environ.get("OPGRAFT_SMOKE"))
CALLS = 4 if IS_SMOKE else 10
HAS_CUDA = torch.cuda.is_available()
stats_of: list[Any] = []  # what the running test compiled

if "pytest" in sys.modules:
    import pytest

    pytestmark = pytest.mark.skipif(
        not HAS_CUDA, reason="torch finds no CUDA device")


def compiled(f: Any, **how: Any) -> Any:
    how.setdefault("mode", "reduce-overhead")
    made = torch.compile(f, backend="opgraft", **how)
    stats_of.append(made)
    return made


def equal(found: Any, wanted: Any, tolerance: float = 1e-4) -> None:
    torch.testing.assert_close(found, wanted, rtol=tolerance, atol=tolerance)


def randn(*sizes: int, **how: Any) -> torch.Tensor:
    return torch.randn(*sizes, device="cuda", **how)


def mlp(width: int = 64) -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(width, 128), torch.nn.GELU(), torch.nn.LayerNorm(128),
        torch.nn.Linear(128, width)).cuda()


# --- A decoder ----------------------------------------------------------------


class Layer(torch.nn.Module):
    """Attention over a cache that is written in place, and a gated MLP."""

    def __init__(self, width: int, heads: int, length: int) -> None:
        super().__init__()
        self.heads, self.length = heads, length
        self.norm = torch.nn.RMSNorm(width)
        self.norm_mlp = torch.nn.RMSNorm(width)
        self.qkv = torch.nn.Linear(width, 3 * width, bias=False)
        self.out = torch.nn.Linear(width, width, bias=False)
        self.gate = torch.nn.Linear(width, 4 * width, bias=False)
        self.down = torch.nn.Linear(2 * width, width, bias=False)

    def forward(self, x: torch.Tensor, cache: torch.Tensor, at: torch.Tensor
                ) -> torch.Tensor:
        batch, width = x.shape
        q, k, v = self.qkv(self.norm(x)).view(
            batch, 3, self.heads, -1).unbind(1)
        cache[0].index_copy_(2, at, k.unsqueeze(2))
        cache[1].index_copy_(2, at, v.unsqueeze(2))
        mask = torch.arange(self.length, device=x.device) <= at
        y = torch.nn.functional.scaled_dot_product_attention(
            q.unsqueeze(2), cache[0], cache[1], attn_mask=mask[None, None, None])
        x = x + self.out(y.reshape(batch, width))
        up, gate = self.gate(self.norm_mlp(x)).chunk(2, -1)
        return x + self.down(torch.nn.functional.silu(gate) * up)


class Decoder(torch.nn.Module):
    def __init__(self, width: int = 64, heads: int = 4, layers: int = 2,
                 length: int = 32) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(
            Layer(width, heads, length) for _ in range(layers))

    def forward(self, x: torch.Tensor, caches: list[torch.Tensor],
                at: torch.Tensor) -> torch.Tensor:
        for layer, cache in zip(self.layers, caches):
            x = layer(x, cache, at)
        return x


def caches(layers: int = 2, batch: int = 2) -> list[torch.Tensor]:
    return [torch.zeros(2, batch, 4, 32, 16, device="cuda")
            for _ in range(layers)]


# --- Inference ----------------------------------------------------------------


def test_mlp() -> None:
    model = mlp()
    f = compiled(model)
    with torch.no_grad():
        for _ in range(CALLS):
            x = randn(4, 64)
            equal(f(x), model(x))
    s = opgraft.stats(f)
    assert s.captures == 1 and s.replays == CALLS - 1, s


def test_results_are_kept() -> None:
    model = mlp()
    f = compiled(model)
    kept = []
    with torch.no_grad():
        for _ in range(CALLS):
            x = randn(4, 64)
            kept.append((f(x), model(x)))
            for found, wanted in kept:
                equal(found, wanted)
    assert opgraft.stats(f).captures == 2


def test_decoder_writes_its_caches() -> None:
    torch.manual_seed(0)
    model = Decoder().cuda()
    f = compiled(model)
    mine, theirs = caches(), caches()
    with torch.no_grad():
        for i in range(16):
            x, at = randn(2, 64), torch.tensor([i], device="cuda")
            equal(f(x, mine, at), model(x, theirs, at))
            equal(mine, theirs)
    s = opgraft.stats(f)
    assert s.captures == 1 and s.eager_calls == 0, s


def test_transformers_llama() -> None:
    try:
        import transformers
    except ImportError as error:
        return skip(f"transformers: {error}")
    config = transformers.LlamaConfig(
        hidden_size=64, intermediate_size=128, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, vocab_size=128)
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(config).cuda().eval()
    f = compiled(model)
    with torch.no_grad():
        for _ in range(CALLS):
            tokens = torch.randint(128, (2, 16), device="cuda")
            equal(f(tokens, use_cache=False).logits,
                  model(tokens, use_cache=False).logits, 1e-3)


def test_dynamic_batches() -> None:
    model = mlp()
    f = compiled(model, dynamic=True)
    with torch.no_grad():
        for _ in range(CALLS):
            for n in (2, 3, 9, 17):
                x = randn(n, 64)
                equal(f(x), model(x))
    assert opgraft.stats(f).captures == 4


def test_bfloat16_and_autocast() -> None:
    model = mlp()
    f = compiled(model)
    with torch.no_grad(), torch.autocast("cuda", torch.bfloat16):
        for _ in range(CALLS):
            x = randn(4, 64)
            equal(f(x), model(x), 3e-2)


# --- Training -----------------------------------------------------------------


def train(make: Callable[[Any], Any]) -> None:
    mine, theirs = mlp(), mlp()
    f = compiled(mine)
    optimizers = make(mine.parameters()), make(theirs.parameters())
    for _ in range(CALLS):
        x = randn(8, 64)
        losses = []
        for call, optimizer in zip((f, theirs), optimizers):
            optimizer.zero_grad()
            loss = call(x).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        equal(losses[0], losses[1], 1e-3)
    for a, b in zip(mine.parameters(), theirs.parameters()):
        equal(a, b, 5e-3)
    s = opgraft.stats(f)
    assert s.captures >= 2 and s.replays > 0, s


def test_training_sgd() -> None:
    train(lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9))


def test_training_adam() -> None:
    train(lambda p: torch.optim.Adam(p, lr=1e-3))


def test_two_forwards_before_the_backwards() -> None:
    mine, theirs = mlp(), mlp()
    f = compiled(mine)
    for step in range(CALLS):
        xs = [randn(4, 64) for _ in range(1 + step % 3)]
        found, wanted = [f(x) for x in xs], [theirs(x) for x in xs]
        for i in reversed(range(len(xs))):
            found[i].square().sum().backward()
            wanted[i].square().sum().backward()
    for a, b in zip(mine.parameters(), theirs.parameters()):
        equal(a.grad / CALLS, b.grad / CALLS, 1e-3)


# --- Random numbers -----------------------------------------------------------


def test_dropout() -> None:
    def drop(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.dropout(x, 0.25)

    f = compiled(drop)
    x = torch.ones(1 << 16, device="cuda")
    torch.manual_seed(7)
    draws = [f(x).clone() for _ in range(CALLS)]
    torch.manual_seed(7)
    eager = [drop(x) for _ in range(CALLS)]
    for i, a in enumerate(draws):
        share = (a == 0).float().mean().item()
        assert abs(share - 0.25) < 0.01, share
        assert all(not torch.equal(a, b) for b in draws[:i])
    torch.manual_seed(7)
    again = [f(x).clone() for _ in range(CALLS)]
    torch.manual_seed(7)
    twice = [f(x).clone() for _ in range(CALLS)]
    assert all(torch.equal(a, b) for a, b in zip(again, twice))
    same = sum(torch.equal(a, b) for a, b in zip(draws, eager))
    print(f"  dropout: {same} of {CALLS} draws are eager's to the bit")


# --- Streams, threads, errors, memory -----------------------------------------


def test_streams() -> None:
    model = mlp()
    f = compiled(model)
    streams = [torch.cuda.Stream() for _ in range(3)]
    with torch.no_grad():
        for i in range(3 * CALLS):
            stream = streams[i % 3]
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                x = randn(64, 64)
                equal(f(x), model(x))
        torch.cuda.synchronize()
    assert opgraft.stats(f).stream_waits > 0


def test_threads() -> None:
    model = mlp()
    f = compiled(model)
    errors: list[BaseException] = []

    def work(inputs: list[torch.Tensor]) -> None:
        try:
            with torch.cuda.stream(torch.cuda.Stream()), torch.no_grad():
                kept = []
                for x in inputs:
                    kept.append((f(x), model(x)))
                for found, wanted in kept:
                    equal(found, wanted)
        except BaseException as error:
            errors.append(error)

    with torch.no_grad():
        f(randn(4, 64))
        f(randn(4, 64))
    torch.cuda.synchronize()
    # torch draws no random numbers on one thread while another captures.
    threads = [threading.Thread(
        target=work, args=([randn(4, 64) for _ in range(20)],))
        for _ in range(3)]
    torch.cuda.synchronize()
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if errors:
        raise errors[0]


def test_a_capture_that_fails() -> None:
    @torch.library.custom_op("opgraft_gpu::reads", mutates_args=())
    def reads(x: torch.Tensor) -> torch.Tensor:
        return x + x.sum().item()  # the host waits, which no capture allows

    reads.register_fake(torch.empty_like)
    dropout = compiled(lambda x: torch.nn.functional.dropout(x, 0.5))
    x = torch.ones(4096, device="cuda")
    before = [dropout(x).clone() for _ in range(3)]
    f = compiled(lambda x: reads(torch.rand_like(x) * 0 + x * 2) * 3)
    for _ in range(CALLS):
        y = randn(8)
        equal(f(y), (y * 2 + (y * 2).sum()) * 3, 1e-3)
    s = opgraft.stats(f)
    assert s.captures == 0 and s.fallbacks, s
    print(f"  a capture that fails: {s.fallbacks[0]['reason']}")
    # All else goes on: new captures, random numbers, freed memory.
    model = mlp()
    g = compiled(model)
    with torch.no_grad():
        for _ in range(CALLS):
            z = randn(4, 64)
            equal(g(z), model(z))
    assert opgraft.stats(g).captures == 1
    after = [dropout(x).clone() for _ in range(4)]
    draws = before + after + [torch.nn.functional.dropout(x, 0.5)]
    for i, a in enumerate(draws):
        assert all(not torch.equal(a, b) for b in draws[:i]), i
    torch.cuda.synchronize()


def test_unsafe_and_data_dependent_parts() -> None:
    def g(x: torch.Tensor) -> torch.Tensor:
        y = (x * 2).relu() + 1
        return (y[y > 2] * 3).sum() + y.sum()

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        f = compiled(g, fullgraph=True)
        for _ in range(CALLS):
            x = randn(64)
            equal(f(x), g(x), 1e-3)
    s = opgraft.stats(f)
    assert s.captures >= 1 and s.fallbacks, s


def test_memory_is_freed() -> None:
    def once() -> None:
        model = mlp(1024)
        f = torch.compile(model, backend="opgraft", mode="reduce-overhead")
        with torch.no_grad():
            for _ in range(4):
                f(randn(512, 1024))

    def left() -> int:
        torch._dynamo.reset()
        gc.collect()
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        return torch.cuda.memory_allocated()

    once()
    before = left()
    for _ in range(3):
        once()
    after = left()
    print(f"  memory: {before} bytes before, {after} after three models")
    assert after <= before + (1 << 20)


def test_inside_of_a_users_capture() -> None:
    model = mlp()
    f = compiled(model)
    x = randn(4, 64)
    with torch.no_grad():
        for _ in range(3):
            f(x)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = f(x)
        x.copy_(randn(4, 64))
        graph.replay()
        equal(y, model(x))


# --- As a program -------------------------------------------------------------


class Skipped(Exception):
    pass


def skip(reason: str) -> None:
    if "pytest" in sys.modules:
        pytest.skip(reason)
    raise Skipped(reason)


def run(name: str, test: Callable[[], None]) -> str:
    """passed, failed or skipped; prints all that is known of a failure."""
    stats_of.clear()
    torch._dynamo.reset()
    begin = time.monotonic()
    try:
        test()
        torch.cuda.synchronize()
        verdict = "passed"
    except Skipped as reason:
        verdict = f"skipped: {reason}"
    except Exception:
        verdict = "failed"
        traceback.print_exc(limit=-12)
        for f in stats_of:
            try:
                print(opgraft.stats(f))
            except Exception as error:
                print(f"no stats: {error}")
    print(f"{name}: {verdict} ({time.monotonic() - begin:.1f} s)", flush=True)
    return verdict


def main() -> int:
    if not HAS_CUDA:
        print("torch finds no CUDA device: nothing is tested")
        return 1
    from opgraft._base import host
    from opgraft._graph import storages

    host.prepare()
    print(f"torch {torch.__version__}, {torch.cuda.get_device_name()}, "
          f"guard {opgraft._C.guard_state()}, results are "
          f"{'lent' if storages.are_read() else 'always copied'}", flush=True)
    wanted = [a for a in sys.argv[1:] if not a.startswith("-")]
    verdicts = [run(name, test) for name, test in list(globals().items())
                if name.startswith("test_")
                and (not wanted or any(w in name for w in wanted))]
    passed, failed = verdicts.count("passed"), verdicts.count("failed")
    print(f"{passed} passed, {failed} failed")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
