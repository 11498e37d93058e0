# SPDX-License-Identifier: Apache-2.0
"""Formulas in graphs: they are row programs, and fuse as those do."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable

import formula_grow
import numpy as np
import pytest
import torch
from functorch.compile import aot_function
from torch import nn

import opgraft
from opgraft._base import host
from opgraft._graph import backend, stats

host.prepare()
T = torch.Tensor
MODES = ["default", "reduce-overhead", "max-autotune"]


@pytest.fixture(scope="module")
def norm() -> Callable[..., T]:
    return opgraft.define(
        "rms_norm(Tensor x, Tensor weight, float eps=1e-6) -> Tensor",
        shape="x[*N, D], weight[D] -> [*N, D]", name="fusing::rms_norm",
        row="s = row_sum(x * x); y = x / sqrt(s / width + eps) * weight")


@pytest.fixture(scope="module")
def softcap() -> Callable[..., T]:
    return opgraft.define("softcap(Tensor x, float cap=30.0) -> Tensor",
                          name="fusing::softcap", row="y = cap * tanh(x / cap)")


def compiled(f: Any, mode: str, **options: Any) -> Any:
    torch._dynamo.reset()
    return torch.compile(f, backend="opgraft", fullgraph=True, options={
        "mode": mode, "fallback": "error", **options})


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_layer_is_one_program(norm: Any, softcap: Any, mode: str,
                                dtype: torch.dtype) -> None:
    linear = nn.Linear(64, 96).to(dtype)
    weight = torch.rand(96).to(dtype)

    def layer(x: T, y: T) -> T:
        return norm(softcap(linear(x), 2.0) + y, weight)

    x, y = torch.randn(5, 64).to(dtype), torch.randn(5, 96).to(dtype)
    with torch.no_grad():
        c = compiled(layer, mode)
        found, eager = c(x, y), layer(x, y)
        exact = layer(*(t.float() for t in (x, y))) if (
            dtype is torch.float32) else None
    seen = opgraft.stats(c)
    assert seen.row_programs == (1 if mode == "max-autotune" else 2), str(seen)
    if mode == "max-autotune":
        assert seen.fused_nodes == 3 and not seen.unfused, str(seen)
    if exact is not None:
        torch.testing.assert_close(found, eager)
    else:
        torch.testing.assert_close(found, eager, rtol=0.02, atol=0.02)


def test_an_elementwise_one_is_an_epilogue(softcap: Any, tmp_path: Path
                                           ) -> None:
    linear = nn.Linear(256, 512)

    def layer(x: T) -> T:
        return softcap(linear(x), 2.0)

    x = torch.randn(256, 256)
    found = []
    for name, rules in (("joined", ""), ("apart", "fused: fast\n")):
        (tmp_path / name).write_text("addmm: fast\n" + rules)
        c = compiled(layer, "max-autotune", choose=str(tmp_path / name))
        with torch.no_grad():
            found.append((c(x), opgraft.stats(c).epilogues))
    assert torch.equal(found[0][0], found[1][0])
    assert [count for _, count in found] == [1, 0]


def test_operands_get_the_dims_that_they_lack() -> None:
    f = opgraft.define(
        "turned(Tensor x, Tensor cos, Tensor scale, Tensor? bias=None) -> "
        "(Tensor out, Tensor top)", name="fusing::turned",
        shape="x[B, T, D], cos[T, D], scale[B, D], bias?[B, 1, D] -> "
              "[B, T, D], [B, T]",
        row="out = x * cos * scale; out = out + bias; top = row_max(out)")

    def model(x: T, cos: T, scale: T, bias: T | None) -> tuple[T, T]:
        out, top = f(x.relu(), cos, scale, bias)
        return out - top[..., None], top

    x, cos, scale = (torch.randn(3, 8, 4), torch.randn(8, 4), torch.randn(3, 4))
    for bias in (None, torch.randn(3, 1, 4)):
        c = compiled(model, "max-autotune")
        for a, b in zip(c(x, cos, scale, bias), model(x, cos, scale, bias)):
            assert torch.equal(a, b)
        assert opgraft.stats(c).row_programs == 1, str(opgraft.stats(c))


def test_sizes_that_vary(norm: Any) -> None:
    c = compiled(lambda x, w: norm(x * 2, w) + 1, "max-autotune")
    w = torch.rand(24)
    for rows in (2, 7, 5):
        x = torch.randn(rows, 24)
        torch._dynamo.mark_dynamic(x, 0)
        assert torch.equal(c(x, w), norm(x * 2, w) + 1)
    seen = opgraft.stats(c)
    assert len(seen.graphs) == 1 and seen.row_programs == 1, str(seen)


def test_what_stays_a_call_says_why(norm: Any, softcap: Any) -> None:
    w = torch.rand(6)
    cases = [
        (torch.randn(4, 6, dtype=torch.float64), w.double(), "f64"),
        (torch.randn(6, 4).t(), w, "not in one run"),
    ]
    for x, weight, reason in cases:
        c = compiled(lambda x, w: norm(x, w), "max-autotune")
        assert torch.equal(c(x, weight), norm(x, weight))
        seen = opgraft.stats(c)
        assert seen.row_programs == 0
        assert [reason in site["reason"] for site in seen.unfused] == [True]


def test_a_mask_is_read_as_it_is_stored() -> None:
    f = opgraft.define("mask(Tensor x, Tensor y) -> Tensor", row="x - y",
                       dtype="x: f32, y: f32 -> bool", name="fusing::mask")
    g = opgraft.define("above(Tensor x, Tensor y) -> Tensor", row="x > y",
                       dtype="x: f32, y: f32 -> bool", name="fusing::above")
    for step, programs in ((f, 2), (g, 1)):
        def model(x: T, y: T, step: Callable[..., T] = step) -> T:
            return torch.where(step(x, y), x, y) * step(x, y)

        x, y = torch.randn(4, 5), torch.randn(4, 5)
        c = compiled(model, "max-autotune")
        assert torch.equal(c(x, y), model(x, y))
        assert opgraft.stats(c).row_programs == programs


def test_nothing_has_no_largest_here_too() -> None:
    f = opgraft.define("top(Tensor x) -> Tensor", row="row_max(x)",
                       shape="x[*N, D] -> [*N]", name="fusing::top")
    for mode in MODES:
        with pytest.raises(RuntimeError):
            compiled(lambda x: f(x), mode)(torch.empty(3, 0))
    with pytest.raises(RuntimeError, match="row_max"):
        f(torch.empty(3, 0))


def test_a_file_needs_no_module(norm: Any, softcap: Any, tmp_path: Path) -> None:
    class Model(nn.Module):
        def forward(self, x: T, w: T) -> T:
            return softcap(norm(x, w), 1.5)

    x, w = torch.randn(4, 24), torch.rand(24)
    path = tmp_path / "m.og"
    opgraft.export(Model(), (x, w), path)
    text = path.read_bytes()
    assert b"foreign" not in text and text.count(b"= fused(") == 2
    expected = Model()(x, w)
    assert torch.equal(opgraft.load_graph(path)(x, w), expected)
    for name, tensor in (("x", x), ("w", w)):
        np.save(tmp_path / f"{name}.npy", tensor.numpy())
    subprocess.run(
        [Path(sys.executable).with_name("opgraft"), "run", path, "--in",
         tmp_path / "x.npy", "--in", tmp_path / "w.npy", "--out",
         tmp_path / "y.npy"], check=True, capture_output=True)
    assert np.array_equal(np.load(tmp_path / "y.npy"), expected.numpy())


# --- Random programs ----------------------------------------------------------

SEEDS = 40
EXACT = (torch.add, torch.sub, torch.mul, torch.maximum, torch.div)


class Program:
    """Formulas among operators of ATen that are exact, or rounded once."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        torch.manual_seed(seed)
        self.rows, self.width = 4, self.random.choice((1, 5, 33))
        sizes = ((4, self.width), (self.width,), (4, 1), (4, self.width))
        self.inputs = [torch.randn(size) for size in sizes]
        values = list(self.inputs)
        self.steps: list[tuple[Callable[..., T], tuple[int, ...]]] = []
        for n in range(self.random.randint(3, 9)):
            step, shapes = self.step(f"p{seed}_{n}")
            operands = tuple(self.pick(values, shape) for shape in shapes)
            values.append(step(*(values[i] for i in operands)))
            self.steps.append((step, operands))
        last = len(values) - 1
        self.kept = sorted({last, self.random.randint(len(sizes), last)})

    def pick(self, values: list[T], shape: tuple[int, ...] | None) -> int:
        late = max(0, len(values) - 4)
        fits = [i for i, v in enumerate(values)
                if shape is None or tuple(v.shape) == shape]
        near = [i for i in fits if i >= late]
        return self.random.choice(near or fits)

    def step(self, name: str) -> tuple[Callable[..., T], tuple[Any, ...]]:
        wide = (self.rows, self.width)
        if self.random.random() < 0.5:
            formula = formula_grow.grow(self.random.randrange(1 << 20),
                                        more=False)
            f = opgraft.define(formula.schema, row=formula.row,
                               shape=formula.shape,
                               name=f"{name}::{formula.schema.split('(')[0]}")
            number = formula.number
            return (lambda x, w, c: f(x, w, c, number),
                    (wide, (self.width,), (self.rows, 1)))
        if self.random.random() < 0.2:
            return lambda x: x.amax(-1, keepdim=True), (wide,)
        return self.random.choice(EXACT), (wide, None)

    def __call__(self, *inputs: T) -> list[T]:
        values = list(inputs)
        for step, operands in self.steps:
            values.append(step(*(values[i] for i in operands)))
        return [values[k] for k in self.kept]


def fused(p: Program, region: stats.Region) -> list[T]:
    options = backend.Options(mode="max-autotune")
    return aot_function(
        p.__call__, fw_compiler=lambda gm, args: backend.compile_graph(
            gm, args, "inference", options, region))(*p.inputs)


def test_random_programs_are_eager_to_the_bit() -> None:
    nodes = programs = 0
    for seed in range(SEEDS):
        p, region = Program(seed), stats.Region("random")
        with torch.no_grad():
            for a, b in zip(fused(p, region), p(*p.inputs)):
                assert torch.equal(a.nan_to_num(123), b.nan_to_num(123)), seed
        seen = stats.Stats(region.graphs)
        nodes += seen.fused_nodes
        programs += seen.row_programs
    print(f"{nodes} nodes in {programs} programs of {SEEDS} graphs")
    assert nodes > 2 * programs
