# SPDX-License-Identifier: Apache-2.0
"""Modules that write to their buffers: compiled and frozen against eager.

A random module draws writes to its buffers, whole and through views, before
and after it reads them. Compared after each of three steps: results,
gradients, buffers, which of them were written, and what shares storage.
"""

from __future__ import annotations

import copy
import random
from typing import Any, Callable

import pytest
import torch
from compare import compiled, values
from torch import nn

import opgraft

T = torch.Tensor
Step = Callable[["Writer", T], "T | None"]
ROWS, WIDTH = 3, 4


class Writer(nn.Module):
    def __init__(self, seed: int) -> None:
        super().__init__()
        self.random = random.Random(seed)
        torch.manual_seed(seed)
        self.w = nn.Parameter(torch.randn(WIDTH))
        self.v = nn.Parameter(torch.randn(WIDTH))
        for name in "abc":
            self.register_buffer(name, torch.rand(WIDTH) + 0.5)
        self.register_buffer("table", torch.rand(ROWS, WIDTH) + 0.5)
        self.names: list[str] = []
        self.steps: list[Step] = []
        count = self.random.randint(2, 8)
        while len(self.steps) < count:
            self._add(self.random.choice(
                (self._write, self._write, self._part, self._read, self._read,
                 self._parameter)))
        # The last thing read makes every parameter count.
        self._add(lambda: ("mul:w", lambda m, y: y * m.w))
        self.shown = self.random.choice(
            ("", "a", "table", "a.view", "table[0]", "table.t"))

    def _add(self, draw: Callable[[], tuple[str, Step]]) -> None:
        name, step = draw()
        self.names.append(name)
        self.steps.append(step)

    def _buffer(self) -> str:
        return self.random.choice("abc")

    def _write(self) -> tuple[str, Step]:
        to, other = self._buffer(), self._buffer()

        def mean(m: Writer, y: T) -> None:
            getattr(m, to).lerp_(y.detach().mean(0), 0.25)

        def out(m: Writer, y: T) -> None:
            torch.mul(getattr(m, other), 1.25, out=getattr(m, to))

        def no_grad(m: Writer, y: T) -> None:
            with torch.no_grad():
                getattr(m, to).mul_(0.5).add_(getattr(m, other))

        options: list[tuple[str, Step]] = [
            ("add_", lambda m, y: void(getattr(m, to).add_(1))),
            ("lerp_", mean), ("out=", out), ("no_grad", no_grad),
            ("copy_", lambda m, y: void(
                getattr(m, to).copy_(getattr(m, other) * 2))),
            ("exchange", lambda m, y: void(
                getattr(m, to).copy_(y.detach()[0].tanh()))),
        ]
        name, step = self.random.choice(options)
        return f"{name}:{to}{other}", step

    def _part(self) -> tuple[str, Step]:
        row = self.random.randrange(ROWS)
        options: list[tuple[str, Step]] = [
            ("row", lambda m, y: void(m.table[row].mul_(1.5))),
            ("column", lambda m, y: void(m.table[:, 1].add_(0.5))),
            ("view", lambda m, y: void(m.a.view(2, 2)[0].mul_(0.5))),
            ("put", lambda m, y: void(m.table.index_copy_(
                0, torch.tensor([row]), m.b.unsqueeze(0)))),
        ]
        name, step = self.random.choice(options)
        return f"{name}:{row}", step

    def _read(self) -> tuple[str, Step]:
        of, row = self._buffer(), self.random.randrange(ROWS)
        options: list[tuple[str, Step]] = [
            ("mul", lambda m, y: y * getattr(m, of)),
            ("mul v", lambda m, y: y * m.v * getattr(m, of)),
            ("exp", lambda m, y: (y * getattr(m, of).exp().reciprocal())),
            ("row", lambda m, y: y * m.table[row]),
            ("view", lambda m, y: y * getattr(m, of).view(2, 2).t().flatten()),
            ("clone", lambda m, y: y.sin() * getattr(m, of).clone()),
            ("sum", lambda m, y: y * m.table.sum(0)),
        ]
        name, step = self.random.choice(options)
        return f"read {name}:{of}{row}", step

    def _parameter(self) -> tuple[str, Step]:
        def decay(m: Writer, y: T) -> None:
            with torch.no_grad():
                m.v.mul_(0.75)

        return "decay:v", decay

    def forward(self, x: T) -> Any:
        y = x
        for step in self.steps:
            made = step(self, y)
            y = y if made is None else made
        shown = {"": None, "a": self.a, "table": self.table,
                 "a.view": self.a.view(2, 2), "table[0]": self.table[0],
                 "table.t": self.table.t()}[self.shown]
        return y if shown is None else (y, shown)


def void(x: Any) -> None:
    del x


def shared(module: nn.Module, found: Any) -> list[list[bool]]:
    """Which results lie in which buffers."""
    return [[x.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()
             for b in module.buffers()] for x in values(found)]


def versions(module: nn.Module) -> list[int]:
    return [x._version for x in (*module.buffers(), *module.parameters())]


def written(before: list[int], after: list[int]) -> list[bool]:
    return [a != b for a, b in zip(before, after, strict=True)]


def run(module: nn.Module, call: Any, x: T, trains: bool) -> Any:
    before = versions(module)
    if not trains:
        with torch.no_grad():
            found = call(x)
        return found, written(before, versions(module)), []
    found = call(x)
    (found[0] if isinstance(found, tuple) else found).square().sum().backward()
    return found, written(before, versions(module)), [
        p.grad for p in module.parameters()]


def check(seed: int, kind: str) -> bool:
    """False where eager refuses the module: it writes what backward needs."""
    theirs = Writer(seed)
    mine = copy.deepcopy(theirs)
    trains = kind.startswith("train")
    inputs = [torch.randn(2 + (i if kind.endswith("dynamic") else 0), WIDTH)
              for i in range(3)]
    call = (opgraft.freeze(mine, (inputs[0],)) if kind == "frozen"
            else compiled(mine, fullgraph=True,
                          dynamic=kind.endswith("dynamic")))
    for x in inputs:
        try:
            wanted, wanted_written, wanted_grads = run(theirs, theirs, x,
                                                       trains)
        except RuntimeError as error:
            assert "modified by an inplace operation" in str(error)
            return False
        found, found_written, grads = run(mine, call, x, trains)
        said = f"seed {seed} {kind}: {theirs.names} shows {theirs.shown!r}"
        for a, b in ((found, wanted), (grads, wanted_grads),
                     (list(mine.buffers()), list(theirs.buffers())),
                     (list(mine.parameters()), list(theirs.parameters()))):
            for y, z in zip(values(a), values(b), strict=True):
                torch.testing.assert_close(y, z, msg=said)
        if kind != "frozen":  # which gives results of its own
            assert found_written == wanted_written, said
            assert shared(mine, found) == shared(theirs, wanted), said
    return True


KINDS = ("train", "train dynamic", "eval", "eval dynamic", "frozen")


@pytest.mark.parametrize("kind", KINDS)
def test_random_modules_that_write_their_buffers(kind: str) -> None:
    tried = sum(check(seed, kind) for seed in range(8))
    assert tried >= 3


@pytest.mark.full
@pytest.mark.parametrize("kind", KINDS)
def test_many(kind: str, rounds: Any) -> None:
    rounds(lambda seed: check(seed, kind), 200)
