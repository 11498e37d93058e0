# SPDX-License-Identifier: Apache-2.0
"""Group norm as rows of a row program, held against float64."""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest
import torch
from compare import no_worse
from torch import nn
from torch.nn import functional as F

import opgraft

T = torch.Tensor


class Normed(nn.Module):
    def __init__(self, r: random.Random) -> None:
        super().__init__()
        self.groups = r.choice([1, 2, 3, 8])
        channels = self.groups * r.choice([1, 2, 5])
        self.norm = nn.GroupNorm(self.groups, channels, eps=r.choice(
            [1e-5, 1e-2]), affine=r.random() < 0.8)
        for weight in self.norm.parameters():
            nn.init.normal_(weight)
        self.sides = [r.randint(1, 23) for _ in range(r.randint(0, 3))]
        self.acts = r.random() < 0.5

    def forward(self, x: T) -> T:
        y = self.norm(x)
        return F.silu(y) + x if self.acts else y


@pytest.mark.parametrize("seed", range(10))
def test_drawn(seed: int) -> None:
    r = random.Random(seed)
    torch.manual_seed(seed)
    torch._dynamo.reset()
    model = Normed(r)
    kind = [torch.float32, torch.float32, torch.bfloat16][seed % 3]
    scale = [1.0, 1e-4, 1e6][seed % 3]
    f: Any = None
    with torch.no_grad():
        for batch in 3, 2:
            x = torch.randn(batch, model.norm.num_channels, *model.sides)
            x = (x * scale + r.choice([0, 5])).to(kind)
            if seed % 4 == 1 and x.ndim == 4:
                x = x.to(memory_format=torch.channels_last)
            model = model.to(kind)
            if f is None:
                f = torch.compile(model, backend="opgraft", options={
                    "mode": "max-autotune", "tune_s": 0}, dynamic=seed % 2 == 0)
            found, eager = f(x), model(x)
            exact = copy.deepcopy(model).double()(x.double())
            no_worse(found, eager, exact, slack=2e-6)
            assert found.stride() == eager.stride()


def test_no_kernel_of_the_host() -> None:
    model = nn.Sequential(nn.GroupNorm(4, 32), nn.SiLU(), nn.GroupNorm(32, 32))
    x = torch.randn(2, 32, 24, 24)
    with torch.no_grad():
        f = torch.compile(model, backend="opgraft", dynamic=False,
                          options={"mode": "max-autotune", "tune_s": 0})
        torch.testing.assert_close(f(x), model(x), rtol=1e-4, atol=1e-5)
    assert opgraft.stats(f).host_nodes == 0
