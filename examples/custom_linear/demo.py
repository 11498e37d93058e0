#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One C file becomes an operator and trains a classifier, in every mode.

Builds custom_linear.c, trains on the handwritten digits that ship with
scikit-learn beside nn.Linear from equal weights, and prints loss, accuracy,
the biggest difference between the two and the time of a step. Then lets
`opgraft check` prove the operator.
"""

from __future__ import annotations

import argparse
import copy
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable

import torch
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from sklearn.datasets import load_digits

import opgraft

HERE = Path(__file__).resolve().parent
MODES = ("eager", "aot_eager", "inductor")


def program() -> str:
    beside = Path(sys.executable).parent / "opgraft"
    found = str(beside) if beside.exists() else shutil.which("opgraft")
    if found is None:
        raise SystemExit("demo: the program `opgraft` is not installed; "
                         "run `make setup`")
    return found


def build(folder: Path) -> Path:
    out = folder / "custom_linear.so"
    subprocess.run(
        [program(), "build", str(HERE / "custom_linear.c"), "-o", str(out)],
        check=True,
    )
    return out


class OpLinear(torch.nn.Module):
    """nn.Linear with our operator in place of its matmul."""

    def __init__(self, source: torch.nn.Linear, op: Callable[..., Any]) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(source.weight.detach().clone())
        self.bias = (None if source.bias is None else
                     torch.nn.Parameter(source.bias.detach().clone()))
        self.op = op

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.op(x, self.weight, self.bias)


def one_layer(has_bias: bool) -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(64, 10, bias=has_bias))


def three_layers(has_bias: bool) -> torch.nn.Module:
    return torch.nn.Sequential(
        torch.nn.Linear(64, 128, bias=has_bias), torch.nn.ReLU(),
        torch.nn.Linear(128, 64, bias=has_bias), torch.nn.ReLU(),
        torch.nn.Linear(64, 10, bias=has_bias),
    )


def with_operator(model: torch.nn.Module, op: Callable[..., Any]) -> Any:
    twin = copy.deepcopy(model)
    for name, child in twin.named_children():
        if isinstance(child, torch.nn.Linear):
            setattr(twin, name, OpLinear(child, op))
    return twin


@dataclass
class Case:
    name: str
    make: Callable[[bool], torch.nn.Module]
    dtype: torch.dtype = torch.float32
    has_bias: bool = True
    lead: tuple[int, ...] = ()  # extra batch dims in front


CASES = (
    Case("64-10, f32", one_layer),
    Case("64-10, f32, no bias", one_layer, has_bias=False),
    Case("3 layers, f32", three_layers),
    Case("3 layers, f32, batch [4, 32]", three_layers, lead=(4,)),
    Case("3 layers, bf16", three_layers, torch.bfloat16),
)


@dataclass
class Run:
    loss: float
    accuracy: float
    least_ms: float


class Data:
    def __init__(self) -> None:
        digits = load_digits()
        x = torch.tensor(digits.data, dtype=torch.float32) / 16
        y = torch.tensor(digits.target)
        order = torch.randperm(len(x), generator=torch.Generator()
                               .manual_seed(0))
        x, y = x[order], y[order]
        self.train = x[:1408], y[:1408]
        self.test = x[1408:], y[1408:]


class Trainer:
    """One model under one mode; `step` trains on a batch and times it."""

    def __init__(self, model: Any, mode: str) -> None:
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        self.call = model if mode == "eager" else torch.compile(
            model, backend=mode, fullgraph=True)
        self.times: list[float] = []
        self.loss = 0.0

    def step(self, x: torch.Tensor, y: torch.Tensor) -> None:
        begin = time.perf_counter()
        self.optimizer.zero_grad()
        out = self.call(x)
        loss = torch.nn.functional.cross_entropy(
            out.reshape(-1, 10).float(), y)
        loss.backward()
        self.optimizer.step()
        self.times.append((time.perf_counter() - begin) * 1e3)
        self.loss = float(loss.detach())

    def result(self, x: torch.Tensor, y: torch.Tensor) -> Run:
        with torch.no_grad():
            guess = self.model(x).argmax(-1)
        # The first steps compile.
        times = self.times[len(self.times) // 4:]
        return Run(self.loss, float((guess == y).float().mean()), min(times))


def train(
    case: Case, mode: str, op: Any, data: Data, epochs: int,
    tick: Callable[[], None],
) -> tuple[Run, Run, float]:
    torch.manual_seed(1)
    torch._dynamo.reset()
    reference = case.make(case.has_bias).to(case.dtype)
    ours = Trainer(with_operator(reference, op), mode)
    theirs = Trainer(reference, mode)
    x, y = data.train
    for _ in range(epochs):
        for at in range(0, len(x), 128):
            batch = x[at:at + 128].to(case.dtype)
            if case.lead:
                batch = batch.reshape(*case.lead, -1, 64)
            for trainer in (ours, theirs):
                trainer.step(batch, y[at:at + 128])
        tick()
    pairs = zip(ours.model.parameters(), theirs.model.parameters())
    difference = max(float((a.detach().float() - b.detach().float()).abs().max())
                     for a, b in pairs)
    x, y = data.test
    x = x.to(case.dtype)
    return ours.result(x, y), theirs.result(x, y), difference


def show(console: Console, rows: list[Any]) -> None:
    table = Table(title="custom_linear (C) beside nn.Linear, equal seeds")
    for column in ("model", "mode", "loss", "nn.Linear", "test accuracy",
                   "nn.Linear", "biggest difference", "ms/step", "nn.Linear"):
        table.add_column(column, justify="left" if column in (
            "model", "mode") else "right")
    for case, mode, ours, theirs, difference in rows:
        table.add_row(
            case.name, mode, f"{ours.loss:.4f}", f"{theirs.loss:.4f}",
            f"{ours.accuracy:.1%}", f"{theirs.accuracy:.1%}",
            f"{difference:.1e}", f"{ours.least_ms:.3f}",
            f"{theirs.least_ms:.3f}",
        )
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true",
                        help="a few epochs of one model")
    parser.add_argument("--epochs", type=int, default=30)
    options = parser.parse_args()
    epochs = 3 if options.smoke else options.epochs
    cases = CASES[2:3] if options.smoke else CASES
    console = Console(width=None if sys.stdout.isatty() else 120)
    data = Data()
    with tempfile.TemporaryDirectory() as name:
        module = build(Path(name))
        op = opgraft.load(module).custom_linear
        rows = []
        with Progress(TextColumn("{task.description}"), BarColumn(),
                      TextColumn("{task.completed}/{task.total} epochs"),
                      TimeElapsedColumn(), console=Console(stderr=True),
                      disable=not sys.stderr.isatty()) as progress:
            task = progress.add_task("", total=len(cases) * len(MODES) * epochs)
            for case in cases:
                for mode in MODES:
                    progress.update(task, description=f"{case.name}, {mode}")
                    rows.append((case, mode, *train(
                        case, mode, op, data, epochs,
                        lambda: progress.advance(task))))
        show(console, rows)
        worst = max(abs(r[2].accuracy - r[3].accuracy) for r in rows)
        console.print(f"biggest difference in test accuracy: {worst:.2%}\n")
        sys.stdout.flush()
        status = subprocess.run([program(), "check", str(module)]).returncode
    if worst > 0.02:
        raise SystemExit("demo: the accuracies differ by more than 2 %")
    raise SystemExit(status)


if __name__ == "__main__":
    main()
