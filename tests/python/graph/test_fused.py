# SPDX-License-Identifier: Apache-2.0
"""Mode max-autotune: what the other files of this folder ask for, asked again
where nodes are fused into row programs, and what is fused of real models."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import test_aten_samples as op_samples
import test_behaviours
import test_models
import test_writes
import torch
from compare import compiled, no_worse, values
from torch import nn
from torch.nn import functional as F

import opgraft
from opgraft._graph import backend

T = torch.Tensor


@dataclass
class Autotuned(backend.Options):
    mode: str = "max-autotune"


@pytest.fixture(autouse=True)
def max_autotune(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mode of what gives none."""
    monkeypatch.setattr(backend, "Options", Autotuned)


# --- The other files, in this mode --------------------------------------------

writer = test_behaviours.writer  # a fixture of its tests
for module in (test_behaviours, test_models, test_writes):
    globals().update({name: test for name, test in vars(module).items()
                      if name.startswith("test_") and callable(test)})


@pytest.mark.parametrize("info", op_samples.INFOS[2::6], ids=op_samples.label)
def test_some_samples(info: Any) -> None:
    op_samples.run(info, 2)


@pytest.mark.full
@pytest.mark.parametrize("info", op_samples.INFOS, ids=op_samples.label)
def test_all_samples(info: Any) -> None:
    op_samples.run(info, 40)


# --- What is fused ------------------------------------------------------------


class Block(nn.Module):
    """A transformer's block with the norms of two kinds of model."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)
        self.norm = nn.LayerNorm(width)
        self.scale = nn.Parameter(torch.rand(width))
        self.drop = nn.Dropout(0.1)

    def forward(self, x: T, mask: T) -> T:
        scores = (x @ x.transpose(-1, -2)) / 5.6
        scores = scores.masked_fill(mask, float("-inf"))
        x = x + self.drop(torch.softmax(scores, -1) @ x)
        x = self.norm(x + self.down(F.gelu(self.up(x))))
        mean = x.float().pow(2).mean(-1, keepdim=True)
        return self.scale * (x * torch.rsqrt(mean + 1e-6))


def block_inputs(dtype: torch.dtype = torch.float32, tokens: int = 9
                 ) -> tuple[T, T]:
    mask = torch.ones(tokens, tokens, dtype=torch.bool).triu(1)
    return torch.randn(2, tokens, 32, dtype=dtype), mask


def test_a_block_is_four_programs() -> None:
    """Around the contractions, and nothing of it is left apart."""
    block = Block().eval()
    x, mask = block_inputs()
    c = compiled(block)
    with torch.no_grad():
        found, wanted = c(x, mask), block(x, mask)
        exact = block.double()(x.double(), mask)
    no_worse(found, wanted, exact)
    stats = opgraft.stats(c)
    assert stats.row_programs == 4, str(stats)
    assert stats.unfused == [], str(stats)
    assert "4 row programs of " in str(stats)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_training_a_block(dtype: torch.dtype) -> None:
    """Results and gradients of every parameter, within twice eager's error."""
    block = Block().to(dtype)
    block.drop.p = 0.0
    x, mask = block_inputs(dtype)

    def gradients(f: Any, of: nn.Module, x: T) -> list[T]:
        of.zero_grad()
        x = x.detach().clone().requires_grad_()
        out = f(x, mask)
        (out * torch.linspace(-1, 1, 32, dtype=out.dtype)).sum().backward()
        return [out.detach(), x.grad, *(p.grad.clone() for p in of.parameters())]

    c = compiled(block)
    found = gradients(c, block, x)
    wanted = gradients(block, block, x)
    exact = gradients(block.double(), block, x.double())
    no_worse(found, wanted, exact, slack=1e-6 if dtype is torch.float32 else 4e-3)
    assert opgraft.stats(c).row_programs > 0


def test_sizes_that_vary_are_one_graph() -> None:
    block = Block().eval()
    c = compiled(block, dynamic=True)
    with torch.no_grad():
        for tokens in (9, 4, 17):
            x, mask = block_inputs(tokens=tokens)
            torch.testing.assert_close(c(x, mask), block(x, mask))
    stats = opgraft.stats(c)
    assert len(stats.graphs) == 1 and stats.row_programs == 4, str(stats)


def test_reasons_are_given() -> None:
    def f(x: T, i: T) -> Any:
        return torch.softmax(x, 0), i + 1, torch.exp(x.double())

    c = compiled(f)
    c(torch.randn(3, 4), torch.arange(3))
    reasons = {a["operator"]: a["reason"] for a in opgraft.stats(c).unfused}
    assert reasons["aten._softmax.default"] == (
        "it works on another dim than the last")
    assert "f32" in reasons["aten.exp.default"]
    assert all(a["line"] > 0 for a in opgraft.stats(c).unfused)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (1, 1), (7, 1000), (5,)])
def test_special_numbers(shape: tuple[int, ...]) -> None:
    """NaN, infinities, both zeros and denormals go the way they go in eager;
    but gelu of +inf is inf, for which eager's kernels of some processors give
    NaN, in tensors of more than one element."""
    def gelu(x: T) -> T:
        return x * (0.5 * (1 + torch.erf(x * 0.5 ** 0.5)))

    def f(x: T, y: T, gelu: Callable[[T], T] = F.gelu) -> Any:
        z = gelu(x * y) + torch.where(x > y, x, -y)
        return (z, z.sum(-1), F.silu(x) - torch.tanh(y), x.clamp(-1, 1),
                F.layer_norm(y, y.shape[-1:]))

    special = torch.tensor([0.0, -0.0, 1.0, float("inf"), float("-inf"),
                            float("nan"), 1e-42, -1e-42, 3e38, 0.1])
    x = special[torch.randint(0, 10, shape)]
    y = torch.randn(shape)
    for a, b in ((x, y), (y, x)):
        for found, wanted in zip(values(compiled(f)(a, b)),
                                 values(f(a, b, gelu)), strict=True):
            torch.testing.assert_close(found, wanted, equal_nan=True)


def test_other_modes_fuse_nothing() -> None:
    c = compiled(lambda x: torch.exp(x) + 1, mode="reduce-overhead")
    c(torch.randn(8))
    assert opgraft.stats(c).row_programs == 0


# --- Epilogues ----------------------------------------------------------------


class Gated(nn.Module):
    """Contractions whose readers are elementwise: an activation, a gate over
    two of them, a residual."""

    def __init__(self, width: int = 40) -> None:
        super().__init__()
        self.first = nn.Linear(width, 70)
        self.gate = nn.Linear(70, 90, bias=False)
        self.up = nn.Linear(70, 90, bias=False)
        self.down = nn.Linear(90, width)

    def forward(self, x: T) -> T:
        y = F.gelu(self.first(x))
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


OURS = "addmm: fast\nmatmul: fast\n"


def in_two_ways(tmp_path: Path, run: Callable[[Any], Any]) -> Any:
    """What `run` gives of a compiled one with epilogues and without, and both
    of their statistics."""
    found = []
    for name, rules in (("joined", OURS), ("apart", OURS + "fused: fast\n")):
        (tmp_path / name).write_text(rules)
        torch._dynamo.reset()
        options = {"mode": "max-autotune", "choose": str(tmp_path / name)}
        found.append(run(options))
    return found


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", [(1, 40), (3, 7, 40), (130, 40)])
def test_epilogues(tmp_path: Path, dtype: torch.dtype,
                   shape: tuple[int, ...]) -> None:
    """The same bits as apart, forward and backward."""
    model = Gated().to(dtype)
    x = torch.randn(shape, dtype=dtype)

    def run(options: dict[str, str]) -> Any:
        c = compiled(model, options=options)
        model.zero_grad()
        own = x.detach().clone().requires_grad_()
        with torch.no_grad():
            plain = c(x)
        y = c(own)
        y.sum().backward()
        return ([plain, y.detach(), own.grad,
                 *(p.grad.clone() for p in model.parameters())],
                opgraft.stats(c))

    (found, joined), (wanted, apart) = in_two_ways(tmp_path, run)
    for a, b in zip(found, wanted, strict=True):
        assert torch.equal(a, b)
    inference = [g for g in joined.graphs if g["kind"] == "inference"]
    assert inference[0]["epilogues"] == 3, str(joined)
    assert joined.epilogues > 3, str(joined)
    assert apart.epilogues == 0, str(apart)
    assert {e["reason"] for e in apart.epilogues_refused} == {"a rule says so"}


def test_why_a_program_is_no_epilogue(tmp_path: Path) -> None:
    def f(x: T) -> T:
        return torch.softmax(x @ x.T, -1)

    def run(options: dict[str, str]) -> Any:
        c = compiled(f, options=options)
        c(torch.randn(5, 6))
        return opgraft.stats(c)

    stats = in_two_ways(tmp_path, run)[0]
    assert [e["reason"] for e in stats.epilogues_refused] == [
        "it needs whole rows, a tile has parts of them"], str(stats)
    assert "no epilogue" in str(stats)
