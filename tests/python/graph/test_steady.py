# SPDX-License-Identifier: Apache-2.0
"""What depends on parameters alone is computed once, until one is written."""

from __future__ import annotations

import copy
import json
import random
import threading
from typing import Any

import pytest
import torch
from compare import no_worse
from torch import nn
from torch.nn import functional as F

import opgraft

T = torch.Tensor
CALLS = 14  # trials of lanes are over by then, and what is kept has been judged
OPTIONS: dict[str, Any] = {"mode": "max-autotune", "tune_s": 0}


class Drawn(nn.Module):
    """Operators of parameters alone, and of what they give with an input."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        r = random.Random(seed)
        torch.manual_seed(seed)
        self.few = nn.ParameterList(torch.randn(32, 32) for _ in range(4))
        self.register_buffer("index", torch.randint(0, 32, (32,)))
        self.steps = [(r.randrange(8), r.randrange(99), r.randrange(99))
                      for _ in range(r.randint(3, 10))]
        self.uses = [r.randrange(99) for _ in range(3)]
        self.returns = r.random() < 0.3

    def made(self, kind: int, a: T, b: T) -> T:
        return (
            lambda: a @ b * 0.2, lambda: (a + b).tanh(),
            lambda: F.layer_norm(a, (32,)), lambda: a.t().contiguous(),
            lambda: a[self.index], lambda: a / a.norm(dim=0, keepdim=True),
            lambda: torch.cat([a[:, 16:], b[:, :16]], 1),
            lambda: a.softmax(-1) + torch.arange(32.0))[kind]()

    def forward(self, x: T) -> Any:
        known: list[T] = [*self.few]
        for kind, i, j in self.steps:
            known.append(self.made(kind, known[i % len(known)],
                                   known[j % len(known)]))
        for u in self.uses:
            x = (x @ known[u % len(known)] * 0.2).tanh() + known[-1 - u % 3]
        return (x, known[-1]) if self.returns else x


def write(model: Any, r: random.Random, way: str) -> None:
    """In ways that versions count, and that they do not; what is frozen keeps
    its memory."""
    weight = model.few[r.randrange(len(model.few))]
    kind = r.randrange(3 if way == "frozen" else 4)
    if kind == 0:
        weight.mul_(1.25)
    elif kind == 1:
        weight.data[3, 4] += 2
    elif kind == 2:
        weight.numpy()[5] = 0.5
    else:
        weight.data = torch.randn(32, 32)


@pytest.mark.parametrize("seed", range(4))
def test_drawn(seed: int) -> None:
    torch._dynamo.reset()
    way = "frozen" if seed % 2 else "compiled"
    model, r = Drawn(seed).eval(), random.Random(seed)
    with torch.no_grad():
        x = torch.randn(32, 32)
        f = (opgraft.freeze(model, (x,), options=OPTIONS) if way == "frozen"
             else torch.compile(model, backend="opgraft", options=OPTIONS))
        for call in range(3 * CALLS):
            if CALLS < call < 2 * CALLS and r.random() < 0.4:
                write(model, r, way)
            x = torch.randn(32, 32)
            exact = copy.deepcopy(model).double()(x.double())
            no_worse(f(x), model(x), exact, slack=2e-6)


def nodes(f: Any, x: T) -> dict[str, int]:
    """Nanoseconds of a call by operator."""
    def read() -> list[tuple[str, int]]:
        told = json.loads(f.graph.profile(True))
        return [(n["operator"], n.get("ns", 0)) for n in told["nodes"]]

    f.graph.profile(True)
    f(x)
    before = read()
    f(x)
    f.graph.profile(False)
    took: dict[str, int] = {}
    for (name, a), (_, b) in zip(before, read()):
        took[name] = took.get(name, 0) + b - a
    return took


class Normed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.weight = nn.Parameter(torch.randn(256, 256))

    def forward(self, x: T) -> T:
        norm = torch.linalg.vector_norm(self.weight, dim=0, keepdim=True)
        return x @ (self.weight / norm)


def test_it_takes_no_step() -> None:
    model = Normed().eval()
    with torch.no_grad():
        x = torch.randn(4, 256)
        f = opgraft.freeze(model, (x,), options=OPTIONS)
        plain = opgraft.freeze(model, (x,), options={
            **OPTIONS, "disable": "steady"})
        for _ in range(CALLS):
            f(x), plain(x)
        name = "aten.linalg_vector_norm.default"
        assert nodes(f, x)[name] == 0 < nodes(plain, x)[name]
        model.weight.mul_(2)
        model.weight[0] += 1
        assert nodes(f, x)[name] >= 0
        no_worse(f(x), model(x), Normed.forward(model.double(), x.double()))


def test_of_constants_alone() -> None:
    """Masks and positions need no parameter."""
    class Masked(nn.Module):
        def forward(self, x: T) -> T:
            at = torch.arange(x.shape[1])
            near = (at[:, None] - at[None]).abs().clamp(max=5).float().exp()
            return x @ near.cumsum(0)

    with torch.no_grad():
        x = torch.randn(4, 64)
        f = opgraft.freeze(Masked(), (x,), options=OPTIONS)
        for _ in range(CALLS):
            x = torch.randn(4, 64)
            torch.testing.assert_close(f(x), Masked()(x), rtol=1e-4, atol=1e-3)
        assert nodes(f, x)["aten.cumsum.default"] == 0


def test_calls_of_several_threads() -> None:
    model = Normed().eval()
    wrong = []
    with torch.no_grad():
        x = torch.randn(4, 256)
        f = opgraft.freeze(model, (x,), options=OPTIONS)
        wanted = model(x)

    def call() -> None:
        with torch.no_grad():
            for _ in range(50):
                if not torch.allclose(f(x), wanted, rtol=1e-4, atol=1e-4):
                    wrong.append(1)

    threads = [threading.Thread(target=call) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
