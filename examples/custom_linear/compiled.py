#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The graph engine: whole models through torch.compile(backend="opgraft").

Trains the digits classifier, whose layers are custom_linear, and runs a
BERT-like encoder of six layers, each by eager, Inductor and opgraft from equal
weights. Prints the time to the first result, the time of a step, the biggest
difference to eager, and what became of every node.
"""

from __future__ import annotations

import argparse
import copy
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Callable

import torch
import torch.nn.functional as F
from demo import build
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_digits
from torch import nn

import opgraft

BACKENDS = ("eager", "inductor", "opgraft")


class OurLinear(nn.Module):
    def __init__(self, op: Callable[..., Any], i: int, o: int) -> None:
        super().__init__()
        self.op = op
        self.weight = nn.Parameter(torch.randn(o, i) / i ** 0.5)
        self.bias = nn.Parameter(torch.zeros(o))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.op(x, self.weight, self.bias)


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.wide = nn.Linear(width, 4 * width)
        self.narrow = nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2)
                   for t in self.qkv(x).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v)
        x = self.norms[0](x + self.out(y.transpose(1, 2).flatten(2)))
        return self.norms[1](x + self.narrow(F.gelu(self.wide(x))))


class Row:
    def __init__(self, model: str, backend: str, first: float, each: float,
                 distance: float, run: Any) -> None:
        self.cells = (model, backend, f"{first:.2f}", f"{each * 1e3:.3f}",
                      f"{distance:.1e}")
        self.run = run
        self.distance = distance


def least(work: Callable[[], Any], seconds: float) -> float:
    end, best = time.perf_counter() + seconds, float("inf")
    while time.perf_counter() < end:
        begin = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - begin)
    return best


def digits(op: Callable[..., Any], backends: tuple[str, ...], seconds: float
           ) -> list[Row]:
    """A training step: forward, loss, backward, update."""
    data = load_digits()
    x = torch.tensor(data.data[:256] / 16, dtype=torch.float32)
    y = torch.tensor(data.target[:256])
    torch.manual_seed(0)
    start = nn.Sequential(OurLinear(op, 64, 128), nn.ReLU(),
                          OurLinear(op, 128, 10))
    rows: list[Row] = []
    wanted = 0.0
    for backend in backends:
        model = copy.deepcopy(start)
        run = model if backend == "eager" else torch.compile(
            model, backend=backend)
        step = training_step(model, run, x, y)
        begin = time.perf_counter()
        step()
        first = time.perf_counter() - begin
        loss = [step() for _ in range(20)][-1]
        if backend == "eager":
            wanted = loss
        rows.append(Row("digits, a training step", backend, first,
                        least(step, seconds), abs(loss - wanted), run))
    return rows


def training_step(model: nn.Module, run: Any, x: torch.Tensor, y: torch.Tensor
                  ) -> Callable[[], float]:
    optimizer = torch.optim.SGD(model.parameters(), 0.2)

    def step() -> float:
        optimizer.zero_grad()
        loss = F.cross_entropy(run(x), y)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def encoder(backends: tuple[str, ...], seconds: float) -> list[Row]:
    torch.manual_seed(0)
    start = nn.Sequential(*(Block(256, 4) for _ in range(6))).eval()
    x = torch.randn(1, 64, 256)
    rows = []
    with torch.no_grad():
        wanted = start(x)
        for backend in backends:
            run = start if backend == "eager" else torch.compile(
                start, backend=backend)
            begin = time.perf_counter()
            out = run(x)
            first = time.perf_counter() - begin
            rows.append(Row("encoder of 6 layers, forward", backend, first,
                            least(lambda: run(x), seconds),  # noqa: B023
                            (out - wanted).abs().max().item(), run))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true",
                        help="without Inductor, a moment each")
    options = parser.parse_args()
    backends = ("eager", "opgraft") if options.smoke else BACKENDS
    seconds = 0.1 if options.smoke else 1.0
    console = Console(width=None if sys.stdout.isatty() else 120)
    with tempfile.TemporaryDirectory() as name:
        op = opgraft.load(build(Path(name))).custom_linear
        rows = digits(op, backends, seconds) + encoder(backends, seconds)
        table = Table(title="torch.compile(model, backend=...)")
        for head in ("model", "backend", "first call, s", "then, ms",
                     "difference to eager"):
            table.add_column(head)
        for row in rows:
            table.add_row(*row.cells)
        console.print(table)
        for row in rows:
            if row.cells[1] == "opgraft":
                print(opgraft.stats(row.run))
    if max(row.distance for row in rows) > 1e-3:
        raise SystemExit("demo: a result is too far from eager's")


if __name__ == "__main__":
    main()
