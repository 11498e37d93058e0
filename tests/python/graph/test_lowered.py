# SPDX-License-Identifier: Apache-2.0
"""Operators that pass `lower` takes apart, held against float64: transposed
convolutions of any kind, gated halves."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from compare import no_worse
from torch import nn
from torch.nn import functional as F

import opgraft

T = torch.Tensor
BEST = {"mode": "max-autotune", "tune_s": 0}


class Transposed(nn.Module):
    def __init__(self, r: random.Random) -> None:
        super().__init__()
        dims = r.choice([1, 1, 2, 2, 2, 3])
        groups, inner = r.choice([(1, 1), (1, 7), (1, 16), (2, 4), (5, 1)])
        few = {"stride": [1, 2, 2, 3, 4], "padding": [0, 1, 2],
               "kernel_size": [1, 2, 3, 4, 5]}
        given: dict[str, Any] = {
            name: [r.choice(of) for _ in range(dims)] for name, of in few.items()}
        given["output_padding"] = [r.randint(0, s - 1) for s in given["stride"]]
        given["dilation"] = r.choice([1, 1, 1, 2])
        kind = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
        self.inner = kind[dims - 1](
            groups * inner, groups * r.choice([1, 3, 8]), groups=groups,
            bias=r.random() < 0.5, **given)
        least = {1: 60, 2: 8, 3: 5}[dims] - 3 * (r.random() < 0.2)
        self.sides = [r.randint(least, least + 3) for _ in range(dims)]
        self.acts = r.random() < 0.5

    def forward(self, x: T) -> T:
        y = self.inner(x)
        return F.leaky_relu(y, 0.1) if self.acts else y


@pytest.mark.parametrize("seed", range(20))
def test_transposed(seed: int) -> None:
    r = random.Random(seed)
    torch.manual_seed(seed)
    torch._dynamo.reset()
    model = Transposed(r)
    kind = torch.float32 if seed % 5 else torch.bfloat16
    with torch.no_grad():
        f = torch.compile(model.to(kind), backend="opgraft", options=BEST,
                          dynamic=seed % 3 == 0)
        for more in 0, 3:
            x = torch.randn(2, model.inner.in_channels, *(
                s + more for s in model.sides)).to(kind)
            if seed % 4 == 1 and x.ndim == 4:
                x = x.to(memory_format=torch.channels_last)
            found, eager = f(x), model(x)
            exact = model.double()(x.double())
            model.to(kind)
            no_worse(found, eager, exact, slack=2e-6)
            assert found.stride() == eager.stride()


def test_transposed_is_ours() -> None:
    """Weights are reordered once, and the host runs nothing."""
    model = nn.Sequential(nn.ConvTranspose2d(8, 16, 4, 2, 1), nn.ReLU(),
                          nn.ConvTranspose2d(16, 4, 3, 2, 1, 1))
    x = torch.randn(1, 8, 9, 9)
    with torch.no_grad():
        f = torch.compile(model, backend="opgraft", dynamic=False, options=BEST)
        for _ in range(6):
            torch.testing.assert_close(f(x), model(x), rtol=1e-4, atol=1e-5)
        assert opgraft.stats(f).host_nodes == 0
        model[0].weight.mul_(2)
        torch.testing.assert_close(f(x), model(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("seed", range(8))
def test_glu(seed: int) -> None:
    r = random.Random(seed)
    torch.manual_seed(seed)
    torch._dynamo.reset()
    shape = [r.randint(1, 9) for _ in range(r.randint(1, 4))]
    dim = r.randrange(len(shape))
    shape[dim] *= 2
    x = torch.randn(shape).to([torch.float32, torch.bfloat16][seed % 2])
    dim -= r.choice([0, len(shape)])
    if r.random() < 0.5:
        x = x.transpose(0, -1).contiguous().transpose(0, -1)

    def gate(x: T) -> T:
        return F.glu(x, dim) * 0.5

    f = torch.compile(gate, backend="opgraft", options=BEST,
                      dynamic=seed % 3 == 0)
    with torch.no_grad():
        no_worse(f(x), gate(x), gate(x.double()))
        # A size that is halved at run time may be odd: its glu stays whole.
        assert opgraft.stats(f).host_nodes == 0 or seed % 3 == 0
        assert f(x).stride() == gate(x).stride()


@pytest.mark.parametrize("seed", range(8))
def test_rows_that_are_added(seed: int) -> None:
    r = random.Random(seed)
    torch.manual_seed(seed)
    torch._dynamo.reset()
    shape = [r.randint(1, 9) for _ in range(r.randint(1, 3))]
    dim, count = r.randrange(len(shape)), r.randint(1, 30)
    x = torch.randn(shape)
    index = torch.randint(shape[dim], (count,))
    added = torch.randn(*shape[:dim], count, *shape[dim + 1:])

    def index_add(x: T, index: T, added: T) -> T:
        return x.neg().index_add(dim, index, added) * 2

    def scatter_add(x: T, index: T, added: T) -> T:
        wide = [1] * len(shape)
        wide[dim] = count
        return x.neg().scatter_add(
            dim, index.view(wide).expand(added.shape), added) * 2

    for run in index_add, scatter_add:
        f = torch.compile(run, backend="opgraft", options=BEST,
                          dynamic=seed % 3 == 0)
        no_worse(f(x, index, added), run(x, index, added),
                 run(x.double(), index, added.double()))
        assert opgraft.stats(f).host_nodes == 0
        index = index.clone()
        index[-1] = -1
        with pytest.raises(RuntimeError, match="out of (range|bounds)"):
            f(x, index, added)
        index[-1] = 0


@pytest.mark.parametrize("step", [1, 3])
def test_places_that_are_counted(step: int) -> None:
    x = torch.randn(3, 20, 4)

    def run(x: T) -> T:
        return x.index_select(1, torch.arange(2, 14, step)) + 1

    f = torch.compile(run, backend="opgraft", options=BEST, dynamic=False)
    torch.testing.assert_close(f(x), run(x))
    assert "index_select" not in str(opgraft.stats(f).rules())


@pytest.mark.full
@pytest.mark.parametrize("check", [
    test_transposed, test_glu, test_rows_that_are_added])
def test_many(check: Any, rounds: Any) -> None:
    rounds(lambda seed: check(seed) or 1, 200)
