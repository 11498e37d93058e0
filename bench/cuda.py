#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a call of a small compiled graph on CUDA costs the host.

Time until the call returns, in batches of 16 between which the device is
waited for, uncounted. Beside ours: eager mode, a bare replay of
torch.cuda.CUDAGraph (alone, and with the copy of an input that moved), and
Inductor's mode reduce-overhead where Triton works. `same` is a call with one
tensor again and again, `moved` one with another tensor each time. A training
step is a forward and a backward, without an optimizer.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any, Callable

sys.path.insert(0, str(Path(__file__).resolve().parent))
import harness  # noqa: E402

BATCH = 16
WARM_CALLS = 6
LAYERS, WIDTH, ROWS = 4, 64, 4
BARE = "ours / a bare replay and the copy of its input"
INDUCTOR = "ours / Inductor's reduce-overhead"
TRAINING = "a training step, ours / Inductor's reduce-overhead"
BOUNDS = {BARE: (1.1, True), INDUCTOR: (0.5, True), TRAINING: (0.5, True)}


def batches(call: Callable[[int], Any]) -> Callable[[int], int]:
    """A case of `call`, which is given the number of the call."""
    import torch

    def run(count: int) -> int:
        took_ns = 0
        for begin in range(0, count, BATCH):
            numbers = range(begin, min(begin + BATCH, count))
            start = time.perf_counter_ns()
            for i in numbers:
                call(i)
            took_ns += time.perf_counter_ns() - start
            torch.cuda.synchronize()
        return took_ns

    return run


def model() -> Any:
    import torch

    torch.manual_seed(0)
    layers: list[Any] = []
    for _ in range(LAYERS):
        layers += [torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers).cuda()


def bare(net: Any, x: Any) -> tuple[Any, Any]:
    """A capture by hand and its input."""
    import torch

    own = x.clone()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side), torch.no_grad():
        for _ in range(3):
            net(own)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph), torch.no_grad():
        net(own)
    return graph, own


def compiled(backend: str) -> Any:
    import torch

    return torch.compile(model(), backend=backend, mode="reduce-overhead")


def warm(call: Callable[[int], Any]) -> None:
    import torch

    for i in range(WARM_CALLS):
        call(i)
    torch.cuda.synchronize()


def inference(xs: list[Any]) -> dict[str, Callable[[int], Any]]:
    import torch

    net = model()
    graph, own = bare(net, xs[0])

    def replay_moved(i: int) -> None:
        own.copy_(xs[i & 1])
        graph.replay()

    calls: dict[str, Callable[[int], Any]] = {
        "eager": lambda i: net(xs[i & 1]),
        "bare replay": lambda i: graph.replay(),
        "bare replay, moved": replay_moved,
    }
    ours = compiled("opgraft")
    calls["opgraft, same"] = lambda i: ours(xs[0])
    calls["opgraft, moved"] = lambda i: ours(xs[i & 1])
    inductor = tried("Inductor", lambda: compiled("inductor"), xs[0])
    if inductor is not None:
        calls["Inductor, moved"] = lambda i: marked(inductor, xs[i & 1])
    for name, call in calls.items():
        calls[name] = without_gradients(call)
        warm(calls[name])
    with torch.no_grad():
        torch.testing.assert_close(ours(xs[1]), net(xs[1]), rtol=1e-4,
                                   atol=1e-4)
    print_stats(ours)
    return calls


def without_gradients(call: Callable[[int], Any]) -> Callable[[int], Any]:
    import torch

    return torch.no_grad()(call)


def marked(f: Any, *args: Any) -> Any:
    """Inductor is told that results of the call before are done with."""
    import torch

    torch.compiler.cudagraph_mark_step_begin()
    return f(*args)


def tried(name: str, make: Callable[[], Any], x: Any) -> Any:
    """None where it does not work here, with the reason."""
    import torch

    try:
        f = make()
        with torch.no_grad():
            f(x)
        return f
    except Exception as error:
        print(f"{name} does not run here: {type(error).__name__}: "
              f"{str(error).splitlines()[0]}")
        return None


def training(xs: list[Any]) -> dict[str, Callable[[int], Any]]:
    ours = compiled("opgraft")
    inductor = tried("Inductor, training", lambda: compiled("inductor"), xs[0])
    net = model()

    def step(model: Any, call: Callable[[Any], Any], i: int) -> None:
        call(xs[i & 1]).sum().backward()
        for p in model.parameters():  # Inductor's are of the next step, too
            p.grad = None

    calls: dict[str, Callable[[int], Any]] = {
        "training, eager": lambda i: step(net, net, i),
        "training, opgraft": lambda i: step(ours, ours, i),
    }
    if inductor is not None:
        calls["training, Inductor"] = lambda i: step(
            inductor, lambda x: marked(inductor, x), i)
    for call in calls.values():
        warm(call)
    print_stats(ours)
    return calls


def print_stats(f: Any) -> None:
    import opgraft

    print(opgraft.stats(f), flush=True)


def figures(rows: dict[str, harness.Timing]) -> dict[str, float]:
    least = {name: timing.least for name, timing in rows.items()}
    out = {BARE: least["opgraft, moved"] / least["bare replay, moved"]}
    if "Inductor, moved" in least:
        out[INDUCTOR] = least["opgraft, moved"] / least["Inductor, moved"]
    if "training, Inductor" in least:
        out[TRAINING] = least["training, opgraft"] / least["training, Inductor"]
    return out


def main() -> None:
    is_smoke, blocks, attempts, goals = harness.start(__doc__, "cuda")
    import torch

    if not torch.cuda.is_available():
        for what in BOUNDS:
            goals.absent(what, "torch finds no CUDA device")
        return
    print(f"torch {torch.__version__}, {torch.cuda.get_device_name()}")
    xs = [torch.randn(ROWS, WIDTH, device="cuda") for _ in range(2)]
    cases = {name: batches(call) for name, call in (
        *inference(xs).items(), *training(xs).items())}

    def attempt() -> dict[str, float]:
        rows = harness.measure(cases, blocks=blocks)
        harness.print_table("host time of a call", rows, 1e3, "us")
        return figures(rows)

    harness.judged(attempt, BOUNDS, goals, attempts)
    if not is_smoke:
        goals.write([Path(__file__), *(
            Path(__file__).resolve().parent.parent / path for path in (
                "hosts/torch/graph/captured.c", "hosts/torch/graph/capture.c",
                "python/opgraft/_graph/captures.py",
                "python/opgraft/_graph/cuda.py"))])


if __name__ == "__main__":
    main()
