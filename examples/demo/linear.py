#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""custom_linear from YAML, trained in every mode.

custom_linear.yaml declares the operator, its gradient and the gradient of that;
custom_linear.c has the kernels. A classifier of handwritten digits (they ship
with scikit-learn) trains with it beside nn.Linear, from equal weights.
"""

from __future__ import annotations

import copy
import json
import tempfile
import time
from pathlib import Path
from typing import Any, Callable

import torch
from common import HERE, opgraft
from sklearn.datasets import load_digits
from torch import nn

from opgraft import load

SOURCE = HERE.parent / "custom_linear" / "custom_linear.c"
MODES: dict[str, dict[str, Any]] = {
    "eager": {},
    "aot_eager": dict(backend="aot_eager"),
    "Inductor": dict(backend="inductor"),
    "opgraft": dict(backend="opgraft"),
    "opgraft, reduce-overhead": dict(backend="opgraft", mode="reduce-overhead"),
    "opgraft, max-autotune": dict(backend="opgraft", mode="max-autotune"),
}
EPOCHS, BATCH = 12, 128


class Linear(nn.Module):
    def __init__(self, source: nn.Linear, op: Callable[..., Any]) -> None:
        super().__init__()
        self.weight, self.bias, self.op = source.weight, source.bias, op

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.op(x, self.weight, self.bias)


def declarations(file: Path) -> Any:
    return json.loads(opgraft("inspect", "--json", file))["ops"]


def built(folder: Path) -> Callable[..., Any]:
    """The operator; its declarations must be the YAML file's."""
    written, module = folder / "declared.c", folder / "custom_linear.so"
    opgraft("gen", SOURCE.with_suffix(".yaml"), "-o", written)
    opgraft("build", SOURCE, "-o", module)
    ops = declarations(module)
    if ops != declarations(written):
        raise SystemExit("custom_linear.yaml and custom_linear.c differ")
    print(f"  {len(ops)} operators as custom_linear.yaml declares them")
    return load(module).custom_linear


def data() -> tuple[torch.Tensor, torch.Tensor]:
    digits = load_digits()
    order = torch.randperm(len(digits.data),
                           generator=torch.Generator().manual_seed(0))
    return (torch.tensor(digits.data / 16, dtype=torch.float32)[order],
            torch.tensor(digits.target)[order])


def train(model: nn.Module, options: dict[str, Any], x: torch.Tensor,
          y: torch.Tensor) -> tuple[float, float]:
    """(the last loss, microseconds of a step: the least)"""
    torch._dynamo.reset()
    f = torch.compile(model, fullgraph=True, **options) if options else model
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    least, loss = float("inf"), torch.tensor(0.0)
    for _ in range(EPOCHS):
        for at in range(0, len(x) - BATCH + 1, BATCH):
            begin = time.perf_counter()
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(f(x[at:at + BATCH]),
                                               y[at:at + BATCH])
            loss.backward()
            optimizer.step()
            least = min(least, time.perf_counter() - begin)
    return loss.item(), 1e6 * least


def main() -> None:
    torch.manual_seed(1)
    torch.set_num_threads(1)
    x, y = data()
    plain = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64),
                          nn.ReLU(), nn.Linear(64, 10))
    with tempfile.TemporaryDirectory() as folder:
        op = built(Path(folder))
        ours = nn.Sequential(*(Linear(layer, op) if isinstance(layer, nn.Linear)
                               else layer for layer in plain))
        rows = [("nn.Linear, eager", copy.deepcopy(plain), {}),
                ("nn.Linear, Inductor", copy.deepcopy(plain), MODES["Inductor"])]
        rows += [(f"custom_linear, {name}", copy.deepcopy(ours), options)
                 for name, options in MODES.items()]
        print(f"  {'':<40}{'loss':>8}{'accuracy':>10}{'a step':>14}")
        found: list[tuple[float, float, float]] = []
        for name, model, options in rows:
            loss, us = train(model, options, x[:1408], y[:1408])
            guess = model(x[1408:]).argmax(-1)
            accuracy = (guess == y[1408:]).float().mean().item()
            found.append((loss, accuracy, us))
            print(f"  {name:<40}{loss:8.4f}{accuracy:10.1%}{us:11.1f} us")
    worst = max(abs(loss - found[0][0]) for loss, _, _ in found)
    assert worst < 1e-3, found
    eager, inductor, *_, ours = (round(us) for _, _, us in found)
    print(f"custom_linear: trained in {len(MODES)} modes; loss equal to "
          f"nn.Linear's within {worst:.0e}; a step takes {ours} us, with "
          f"nn.Linear {eager} us (eager) and {inductor} us (Inductor)")


if __name__ == "__main__":
    main()
