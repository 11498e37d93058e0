# SPDX-License-Identifier: Apache-2.0
"""Captures of graphs, on a stand-in for CUDA: values, what is written, what
stays alive, sizes, threads, streams, errors."""

from __future__ import annotations

import gc
import random
import threading
import weakref
from typing import Any, Callable

import pytest
import torch

import opgraft

CALLS = 6


def compiled(f: Any, **how: Any) -> Any:
    how.setdefault("mode", "reduce-overhead")
    return torch.compile(f, backend="opgraft", **how)


def equal(found: Any, wanted: Any) -> None:
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)


def mlp(width: int = 8) -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(width, 16), torch.nn.GELU(), torch.nn.Linear(16, width))


# --- Values -------------------------------------------------------------------


def test_inference(machine: Any) -> None:
    model = mlp()
    f = compiled(model)
    with torch.no_grad():
        for _ in range(CALLS):
            x = torch.randn(4, 8)
            y = f(x)
            equal(y, model(x))
            del y
    s = opgraft.stats(f)
    assert (s.warm_ups, s.captures, s.replays) == (1, 1, CALLS - 1)
    assert s.copied_results == 0 and s.lent_results == CALLS - 1
    assert s.causes == {"first": 1} and not s.fallbacks
    assert "1 captures" in str(s) and "captures" in s.json()


def test_results_are_kept(machine: Any) -> None:
    model = mlp()
    f = compiled(model)
    kept = []
    with torch.no_grad():
        for _ in range(CALLS):
            x = torch.randn(4, 8)
            kept.append((f(x), model(x)))
            for found, wanted in kept:
                equal(found, wanted)
    s = opgraft.stats(f)
    assert s.captures == 2
    assert s.causes["a result of the last call is alive"] == 1
    # All but one call's are copies.
    assert (s.lent_results, s.copied_results) == (1, CALLS - 2)


def test_a_view_of_a_result_keeps_it(machine: Any) -> None:
    model = mlp()
    f = compiled(model)
    with torch.no_grad():
        for _ in range(2):
            f(torch.randn(4, 8))
        x = torch.randn(4, 8)
        part = f(x)[1:3].t()
        wanted = model(x)[1:3].t()
        for _ in range(3):
            f(torch.randn(4, 8))
        equal(part, wanted)


def test_what_is_dropped_is_lent_again(machine: Any) -> None:
    f = compiled(lambda x: (x * 2, x.sum()))
    kept = [f(torch.randn(3)) for _ in range(4)]
    del kept
    lent = opgraft.stats(f).lent_results
    for _ in range(3):
        f(torch.randn(3))
    assert opgraft.stats(f).lent_results == lent + 6


def test_feedback(machine: Any) -> None:
    def step(h: torch.Tensor) -> torch.Tensor:
        return torch.tanh(h * 1.5 + 0.1)

    f = compiled(step)
    h = wanted = torch.randn(4)
    for _ in range(12):
        h, wanted = f(h), step(wanted)
        equal(h, wanted)


def test_results_that_share_memory(machine: Any) -> None:
    def g(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x * 2
        return y, y[1:], y.view(2, 2)

    f = compiled(g)
    with torch.no_grad():
        kept = []
        for _ in range(CALLS):
            x = torch.randn(4)
            found = f(x)
            found[0].add_(1)
            wanted = g(x)
            wanted[0].add_(1)
            equal(found, wanted)
            kept.append((found, wanted))
        for found, wanted in kept:
            equal(found, wanted)


def test_results_that_are_inputs(machine: Any) -> None:
    def g(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x, x[1:], y + 1, y.expand(3, 4)

    f = compiled(g)
    for _ in range(CALLS):
        x, y = torch.randn(4), torch.randn(4)
        found = f(x, y)
        equal(found, g(x, y))
        x.add_(1)
        equal(found[:2], (x, x[1:]))


def test_odd_inputs(machine: Any) -> None:
    f = compiled(lambda x, y, z: x * 2 + y + z, dynamic=False)
    for _ in range(CALLS):
        args = (torch.randn(1, 4).expand(3, 4), torch.randn(3, 8)[:, ::2],
                torch.randn(4, 3).t())
        equal(f(*args), args[0] * 2 + args[1] + args[2])
    assert opgraft.stats(f).captures == 1
    g = compiled(lambda x: x.sum() + 1, dynamic=False)
    for _ in range(CALLS):
        x = torch.randn(6).as_strided((3, 3), (1, 1))
        equal(g(x), x.sum() + 1)


def test_empty_and_scalar(machine: Any) -> None:
    f = compiled(lambda x, s: (x * s, x.sum(), s + 1), dynamic=False)
    for _ in range(CALLS):
        x, s = torch.randn(0, 3), torch.randn(())
        equal(f(x, s), (x * s, x.sum(), s + 1))


def test_types(machine: Any) -> None:
    f = compiled(lambda a, b, c: (a + 1, b.logical_not(), c * 2))
    for _ in range(CALLS):
        a = torch.randint(9, (5,))
        b, c = a > 4, torch.randn(5).bfloat16()
        equal(f(a, b, c), (a + 1, b.logical_not(), c * 2))


# --- What is written ----------------------------------------------------------


def test_a_written_input_stays_in_place(machine: Any) -> None:
    def g(cache: torch.Tensor, at: torch.Tensor, x: torch.Tensor) -> Any:
        cache.index_copy_(0, at, x)
        return cache.sum(0)

    f = compiled(g)
    mine, theirs = torch.zeros(8, 3), torch.zeros(8, 3)
    with torch.no_grad():
        for i in range(8):
            at, x = torch.tensor([i]), torch.randn(1, 3)
            equal(f(mine, at, x), g(theirs, at, x))
            equal(mine, theirs)
    s = opgraft.stats(f)
    assert s.captures == 1 and s.copied_inputs <= 2 * s.replays


def test_a_written_input_that_moves(machine: Any) -> None:
    def g(x: torch.Tensor) -> torch.Tensor:
        x.mul_(2)
        return x + 1

    f = compiled(g)
    kept = []
    for _ in range(14):
        x = torch.randn(4)
        y = x.clone()
        equal(f(x), g(y))
        equal(x, y)
        kept.append((x, y))
        for a, b in kept:
            equal(a, b)
    s = opgraft.stats(f)
    assert 2 <= s.captures <= 6  # then it is copied there and back
    assert s.causes["a written input moved"] >= 1


def test_two_caches_in_turn(machine: Any) -> None:
    def g(cache: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        cache.add_(x)
        return cache * 2

    f = compiled(g)
    pairs = [(torch.zeros(4), torch.zeros(4)) for _ in range(2)]
    for i in range(12):
        mine, theirs = pairs[i % 2]
        x = torch.randn(4)
        equal(f(mine, x), g(theirs, x))
        equal(mine, theirs)
    assert opgraft.stats(f).captures == 2


def test_buffers_are_counted_once(machine: Any) -> None:
    class Count(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("n", torch.zeros(()))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.n += 1
            return x * self.n

    model = Count()
    f = compiled(model)
    for i in range(1, CALLS + 1):
        x = torch.randn(3)
        equal(f(x), x * i)
        assert model.n.item() == i


def test_a_parameter_that_moves(machine: Any) -> None:
    model = mlp()
    f = compiled(model)
    with torch.no_grad():
        for i in range(20):
            if i % 3 == 2:
                model[0].weight.data = torch.randn(16, 8)
            if i % 5 == 4:
                model[2].bias.add_(1)
            x = torch.randn(4, 8)
            equal(f(x), model(x))
    s = opgraft.stats(f)
    assert s.causes["a parameter or buffer moved"] >= 2
    assert s.captures <= 6


# --- Training -----------------------------------------------------------------


@pytest.mark.parametrize("make", [
    lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    lambda p: torch.optim.Adam(p, lr=0.01),
])
def test_training(machine: Any, make: Callable[[Any], Any]) -> None:
    mine, theirs = mlp(), mlp()
    f = compiled(mine)
    first, second = make(mine.parameters()), make(theirs.parameters())
    for _ in range(8):
        x = torch.randn(4, 8)
        for call, optimizer in ((f, first), (theirs, second)):
            optimizer.zero_grad()
            call(x).square().mean().backward()
            optimizer.step()
        for a, b in zip(mine.parameters(), theirs.parameters()):
            equal(a, b)
    assert opgraft.stats(f).captures >= 2


def test_two_forwards_before_the_backwards(machine: Any) -> None:
    mine, theirs = mlp(), mlp()
    f = compiled(mine)
    for step in range(8):
        xs = [torch.randn(4, 8, requires_grad=True) for _ in range(1 + step % 4)]
        ys = [x.detach().clone().requires_grad_() for x in xs]
        found, wanted = [f(x) for x in xs], [theirs(y) for y in ys]
        order = list(range(len(xs)))
        random.Random(step).shuffle(order)
        for i in order:
            equal(found[i], wanted[i])
            found[i].square().sum().backward()
            wanted[i].square().sum().backward()
            equal(xs[i].grad, ys[i].grad)
        for a, b in zip(mine.parameters(), theirs.parameters()):
            equal(a.grad, b.grad)


def test_gradients_are_kept(machine: Any) -> None:
    model = mlp()
    f = compiled(model)
    kept = []
    for _ in range(CALLS):
        x = torch.randn(4, 8)
        found = torch.autograd.grad(f(x).sum(), list(model.parameters()))
        wanted = torch.autograd.grad(model(x).sum(), list(model.parameters()))
        kept.append((found, wanted))
        for a, b in kept:
            equal(a, b)


def test_dropout_draws_anew(machine: Any) -> None:
    f = compiled(lambda x: torch.nn.functional.dropout(x, 0.5))
    x = torch.ones(1000)
    draws = [f(x).clone() for _ in range(CALLS)]
    for i, a in enumerate(draws):
        assert 350 < int((a == 0).sum()) < 650
        assert all(not torch.equal(a, b) for b in draws[:i])


# --- Sizes --------------------------------------------------------------------


def test_sizes(machine: Any) -> None:
    model = mlp()
    f = compiled(model, dynamic=True)
    with torch.no_grad():
        for _ in range(4):
            for n in (2, 3, 7):
                x = torch.randn(n, 8)
                equal(f(x), model(x))
    s = opgraft.stats(f)
    assert s.captures == 3 and s.causes == {"first": 1, "sizes": 2}
    assert s.warm_ups == 3


def test_the_least_recently_used_goes(machine: Any) -> None:
    model = mlp()
    f = compiled(model, dynamic=True, mode=None,
                 options={"mode": "reduce-overhead", "plan_limit": 2})
    kept = []
    with torch.no_grad():
        for _ in range(3):
            for n in (2, 3, 4, 5):
                for _ in range(3):
                    x = torch.randn(n, 8)
                    kept.append((f(x), model(x)))
        for found, wanted in kept:
            equal(found, wanted)
    assert opgraft.stats(f).evictions > 4


def test_symbolic_results(machine: Any) -> None:
    f = compiled(lambda x: (x * 2, x.shape[0] + 1), dynamic=True)
    for _ in range(3):
        for n in (2, 5):
            x = torch.randn(n)
            y, size = f(x)
            equal(y, x * 2)
            assert size == n + 1


# --- What cannot be captured --------------------------------------------------


def test_sizes_that_depend_on_data(machine: Any) -> None:
    def g(x: torch.Tensor) -> torch.Tensor:
        y = (x * 2).relu() + 1
        return (y[y > 2] * 3).sum() + y.sum()

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        f = compiled(g, fullgraph=True)
        for _ in range(CALLS):
            x = torch.randn(10)
            equal(f(x), g(x))
    s = opgraft.stats(f)
    assert s.captures >= 1 and s.fallbacks


def test_item(machine: Any) -> None:
    def g(x: torch.Tensor) -> torch.Tensor:
        return (x + 1) * x.sum().item() - 1

    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        f = compiled(g, fullgraph=True)
        for _ in range(CALLS):
            x = torch.randn(10)
            equal(f(x), g(x))


def test_unsafe_operators_are_left_out(machine: Any) -> None:
    calls = []

    @torch.library.custom_op("opgraft_test_captures::unsafe", mutates_args=(),
                             tags=(torch.Tag.cudagraph_unsafe,))
    def unsafe(x: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        return x + 1

    unsafe.register_fake(torch.empty_like)
    f = compiled(lambda x: unsafe(x * 2) * 3)
    for _ in range(CALLS):
        x = torch.randn(4)
        equal(f(x), (x * 2 + 1) * 3)
    assert len(calls) == CALLS
    s = opgraft.stats(f)
    assert [c["reason"] for c in s.fallbacks] == [
        "the operator is tagged cudagraph_unsafe"]
    assert s.captures == 2


def test_a_capture_that_fails(machine: Any) -> None:
    model = mlp()
    f = compiled(model)
    machine.fails = RuntimeError("operation not permitted")
    with torch.no_grad():
        for _ in range(CALLS):
            x = torch.randn(4, 8)
            equal(f(x), model(x))
    s = opgraft.stats(f)
    assert s.captures == 0 and s.eager_calls == CALLS - 1
    assert "operation not permitted" in s.fallbacks[0]["reason"]
    g = compiled(lambda x: x * 3)
    for _ in range(3):
        equal(g(x), x * 3)
    assert opgraft.stats(g).captures == 1


def test_mode_default_does_not_capture(machine: Any) -> None:
    f = compiled(lambda x: x * 3, mode="default")
    for _ in range(3):
        equal(f(torch.ones(2)), torch.full((2,), 3.0))
    assert machine.captures == 0
    assert "does not capture" in opgraft.stats(f).fallbacks[0]["reason"]


def test_inside_of_another_capture(machine: Any) -> None:
    f = compiled(lambda x: x * 3)
    for _ in range(3):
        f(torch.ones(2))
    machine.taken = True
    replays = machine.replays
    equal(f(torch.ones(2)), torch.full((2,), 3.0))
    assert machine.replays == replays
    machine.taken = False


# --- Streams, threads, memory -------------------------------------------------


def test_streams_are_ordered(machine: Any) -> None:
    f, g = compiled(lambda x: x * 3), compiled(lambda x: x * 4)
    x = torch.ones(2)
    for h in (f, f, g, g):
        h(x)
    machine.waits.clear()
    for stream, waits in ((1, [0]), (1, []), (2, [1]), (0, [2])):
        machine.local.stream = stream
        f(x)
        assert machine.waits == waits
        machine.waits.clear()
    machine.local.stream = 3
    g(x)
    assert machine.waits == [0]
    machine.waits.clear()
    machine.local.stream = 0
    f(x)
    assert machine.waits == [3]


def test_threads(machine: Any) -> None:
    model = mlp()
    f = compiled(model, dynamic=True)
    errors: list[BaseException] = []
    with torch.no_grad():
        for n in (2, 3):  # Dynamo's part
            f(torch.randn(n, 8))

    def work(seed: int) -> None:
        try:
            kept = []
            generator = torch.Generator().manual_seed(seed)
            machine.local.stream = seed
            with torch.no_grad():
                for i in range(60):
                    n = 2 + (i + seed) % 3
                    x = torch.randn(n, 8, generator=generator)
                    kept.append((f(x), model(x)))
                    if i % 7 == seed % 7:
                        for found, wanted in kept:
                            equal(found, wanted)
                        kept.clear()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors, errors[0]


def test_all_is_freed(machine: Any) -> None:
    def make() -> Any:
        model = mlp()
        f = compiled(model)
        with torch.no_grad():
            for _ in range(4):
                y = f(torch.randn(4, 8))
        return y, weakref.ref(model)

    y, model = make()
    value = y.clone()
    torch._dynamo.reset()
    gc.collect()
    assert model() is None
    assert len(machine.captured) == 0
    assert all(r() is None for r in machine.in_pool)
    equal(y, value)


def test_cpu_graphs_do_not_import_it() -> None:
    import subprocess
    import sys

    done = subprocess.run([sys.executable, "-c", """
import sys, torch, opgraft
f = torch.compile(lambda x: x * 2, backend="opgraft", mode="reduce-overhead")
f(torch.ones(3))
assert "opgraft._graph.cuda" not in sys.modules
assert "opgraft._graph.captures" not in sys.modules
assert not torch.cuda.is_initialized()
"""], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


# --- Random functions ---------------------------------------------------------


def program(draw: random.Random) -> Callable[..., Any]:
    """Two inputs; writes, views, results that are inputs or share memory."""
    steps = [draw.randrange(9) for _ in range(draw.randrange(2, 9))]
    picks = [draw.randrange(100) for _ in steps]
    outs = [draw.randrange(100) for _ in range(draw.randrange(1, 4))]

    def f(a: torch.Tensor, b: torch.Tensor) -> Any:
        live = [a, b]
        for step, pick in zip(steps, picks):
            x = live[pick % len(live)]
            if step == 0:
                a.add_(x)
            elif step == 1:
                b.mul_(0.5)
            elif step == 2:
                b[0].copy_(x[1])
            else:
                live.append([x * 2, x + 1, x.t().contiguous().t(), x.t().t(),
                             x.tanh(), x @ x][step - 3])
        return tuple(live[o % len(live)] for o in outs)

    return f


@pytest.mark.parametrize("seed", range(40))
def test_random(machine: Any, seed: int) -> None:
    draw = random.Random(seed)
    g = program(draw)
    f = compiled(g)
    kept: list[Any] = []
    pool = [torch.randn(3, 3) for _ in range(3)]
    twins = [p.clone() for p in pool]
    with torch.no_grad():
        for _ in range(10):
            i, j = draw.sample(range(3), 2)
            if draw.random() < 0.3:
                pool[i] = torch.randn(3, 3)
                twins[i] = pool[i].clone()
            found, wanted = f(pool[i], pool[j]), g(twins[i], twins[j])
            equal(found, wanted)
            for a, b in zip(pool, twins):
                equal(a, b)
            if draw.random() < 0.5:
                kept.append((found, wanted))
            if draw.random() < 0.2:
                kept.clear()
            for a, b in kept:
                equal(a, b)
