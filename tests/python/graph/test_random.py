# SPDX-License-Identifier: Apache-2.0
"""Random functions of PyTorch's operators: the backend against eager.

tests/tools/graph_random.c holds the passes and the plan to the plain
evaluation of a graph; here the importer and the host's nodes are in play too.
"""

from __future__ import annotations

import math
import random
from typing import Any, Callable

import pytest
import torch
from functorch.compile import aot_function
from torch._guards import TracingContext, tracing
from torch._subclasses.fake_tensor import FakeTensorMode

import opgraft
from opgraft._base import host
from opgraft._graph import backend, stats

host.prepare()

DTYPES = (torch.float32, torch.float32, torch.float64, torch.bfloat16,
          torch.int64, torch.int32, torch.bool)

Step = tuple[str, Callable[..., Any], tuple[int, ...]]

# Each is smooth, or exact: values that are one rounding apart stay close.
UNARY_FLOAT = (torch.sin, torch.tanh, torch.sigmoid, torch.exp, torch.neg,
               torch.abs, torch.relu, torch.nn.functional.gelu,
               torch.nn.functional.silu)
UNARY_ANY = (torch.abs, torch.neg, torch.sign, torch.square)
BINARY = (torch.add, torch.sub, torch.mul, torch.maximum, torch.minimum)
COMPARE = (torch.lt, torch.ge, torch.eq)


class Maker:
    """A random straight-line function, as a list of steps over values."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        torch.manual_seed(seed)
        self.inputs = [self.tensor() for _ in range(self.random.randint(1, 3))]
        self.values: list[torch.Tensor] = list(self.inputs)
        self.steps: list[Step] = []
        for _ in range(self.random.randint(2, 14)):
            self.add()
        count = len(self.values)
        kept = sorted({count - 1, self.random.randrange(count),
                       self.random.randrange(count)})
        self.kept = [k for k in kept if k >= len(self.inputs)] or [count - 1]

    def tensor(self) -> torch.Tensor:
        shape = [self.random.randint(1, 5)
                 for _ in range(self.random.randint(0, 3))]
        dtype = self.random.choice(DTYPES)
        if dtype is torch.bool:
            x = torch.rand(shape) > 0.5
        elif dtype.is_floating_point:
            x = torch.randn(shape).to(dtype)
        else:
            x = torch.randint(-4, 5, shape, dtype=dtype)
        if x.dim() >= 2 and self.random.random() < 0.3:
            x = x.transpose(0, 1).contiguous().transpose(0, 1)
        return x

    def add(self) -> None:
        """A step that eager takes without an error."""
        kind = self.random.choice(
            (self.pointwise, self.pointwise, self.pair, self.pair, self.view,
             self.view, self.reduce, self.move, self.write))
        step = kind()
        if step is None:
            return
        name, call, operands = step
        try:
            value = call(*(self.values[i] for i in operands))
        except (RuntimeError, IndexError, NotImplementedError):
            return
        if not isinstance(value, torch.Tensor) or value.numel() > 4000:
            return
        if value.dtype.is_floating_point and not bool(
                value.isfinite().all() and (value.abs() < 1e4).all()):
            return
        self.steps.append(step)
        self.values.append(value)

    def pick(self) -> int:
        return self.random.randrange(len(self.values))

    def pointwise(self) -> Step:
        i = self.pick()
        x = self.values[i]
        if x.dtype is torch.bool:
            return "not", torch.logical_not, (i,)
        f = self.random.choice(
            UNARY_FLOAT if x.is_floating_point() else UNARY_ANY)
        return f.__name__, f, (i,)

    def pair(self) -> Step:
        i, j = self.pick(), self.pick()
        f = self.random.choice(BINARY + COMPARE)
        if self.random.random() < 0.3:
            n = self.random.choice((2, -1, 0.5))
            return f"{f.__name__}:{n}", lambda x: f(x, torch.as_tensor(n)), (i,)
        return f.__name__, f, (i, j)

    def view(self) -> Step | None:
        i = self.pick()
        x = self.values[i]
        if x.dim() == 0:
            return "unsqueeze", lambda x: x.unsqueeze(0), (i,)
        d, e = (self.random.randrange(x.dim()) for _ in range(2))
        begin = self.random.randrange(x.shape[d])
        return self.random.choice((
            ("transpose", lambda x: x.transpose(d, e), (i,)),
            ("narrow", lambda x: x.narrow(d, begin, x.shape[d] - begin), (i,)),
            ("select", lambda x: x.select(d, begin), (i,)),
            ("flatten", lambda x: x.flatten(), (i,)),
            ("unsqueeze", lambda x: x.unsqueeze(d), (i,)),
            ("step", lambda x: x[::2], (i,)),
            ("expand", lambda x: x.unsqueeze(0).expand(2, *x.shape), (i,)),
        ))

    def reduce(self) -> Step | None:
        i = self.pick()
        x = self.values[i]
        if x.dim() == 0 or x.dtype is torch.bool:
            return None
        d = self.random.randrange(-x.dim(), x.dim())
        keep = self.random.random() < 0.5
        options: list[Step] = [
            ("sum", lambda x: x.sum(d, keepdim=keep), (i,)),
            ("amax", lambda x: x.amax(d, keepdim=keep), (i,)),
            ("cumsum", lambda x: x.cumsum(d), (i,)),
        ]
        if x.is_floating_point():
            options += [
                ("mean", lambda x: x.mean(d, keepdim=keep), (i,)),
                ("softmax", lambda x: x.softmax(d), (i,)),
                ("layer_norm", lambda x: torch.nn.functional.layer_norm(
                    x, x.shape[-1:]), (i,)),
                ("matmul", lambda x: x @ x.transpose(-1, -2), (i,)),
            ]
        return self.random.choice(options)

    def move(self) -> Step | None:
        i = self.pick()
        x = self.values[i]
        if x.dim() == 0:
            return None
        d = self.random.randrange(x.dim())
        rows = torch.tensor([self.random.randrange(x.shape[d])
                             for _ in range(3)])
        return self.random.choice((
            ("cat", lambda x: torch.cat([x, x], d), (i,)),
            ("stack", lambda x: torch.stack([x, x], d), (i,)),
            ("flip", lambda x: x.flip(d), (i,)),
            ("index_select", lambda x: x.index_select(d, rows), (i,)),
            ("clone", lambda x: x.clone(), (i,)),
            ("to", lambda x: x.to(torch.float32), (i,)),
        ))

    def write(self) -> Step | None:
        """A part of a copy overwritten: mutation inside the graph."""
        i = self.pick()
        x = self.values[i]
        if x.dim() == 0 or x.dtype is torch.bool:
            return None
        d = self.random.randrange(x.dim())
        begin = self.random.randrange(x.shape[d])

        def call(x: torch.Tensor) -> torch.Tensor:
            y = x.clone()
            y.narrow(d, begin, 1).mul_(2)
            y.transpose(0, d).select(0, 0).add_(1)
            return y

        return "write", call, (i,)

    def __call__(self, *inputs: torch.Tensor) -> list[torch.Tensor]:
        values = list(inputs)
        for _, call, operands in self.steps:
            values.append(call(*(values[i] for i in operands)))
        return [values[k] for k in self.kept]


class Writer(Maker):
    """Mostly writes into fresh tensors, often equal ones: sums of messages,
    gradients of parts."""

    def add(self) -> None:
        if self.random.random() < 0.4:
            return super().add()
        i = self.random.randrange(len(self.inputs))  # often the same one
        x = self.values[i]
        if x.dim() == 0 or x.dtype is torch.bool:
            return None
        rows = torch.tensor([self.random.randrange(x.shape[0])
                             for _ in range(x.shape[0])])
        row = self.random.randrange(x.shape[0])
        fresh = self.random.choice(
            (torch.zeros_like, torch.ones_like, torch.clone))

        def put(x: torch.Tensor) -> torch.Tensor:
            y = fresh(x)
            y[row] = x[0]
            return y

        self.steps.append(self.random.choice((
            ("index_add", lambda x: fresh(x).index_add(0, rows, x), (i,)),
            ("index_copy", lambda x: fresh(x).index_copy(0, rows, x), (i,)),
            ("put", put, (i,)))))
        self.values.append(self.steps[-1][1](x))
        return None


def copies(maker: Maker, disable: tuple[str, ...]) -> int:
    region = stats.Region("random")
    with torch.no_grad():
        found = traced(maker, disable, region)(*maker.inputs)
    compare(0, maker, found, maker(*maker.inputs))
    return len(stats.Stats(region.graphs).clones)


def test_merging_equal_nodes_costs_no_copies() -> None:
    makers = [Writer(seed) for seed in range(30)]
    counts = [(copies(m, ()), copies(m, ("cse",))) for m in makers if m.steps]
    assert all(merged <= apart for merged, apart in counts), counts
    assert len(counts) >= 20


def tolerances(maker: Maker) -> list[float]:
    """Of each value: 0 for an exact type, else by the coarsest type that it
    comes from, since a f64 of a f32 is as right as that."""
    found = [torch.finfo(x.dtype).eps if x.is_floating_point() else 0.0
             for x in maker.values]
    for i, (_, _, operands) in enumerate(maker.steps, len(maker.inputs)):
        found[i] = max([found[i], *(found[j] for j in operands)])
    return [256 * eps if x.is_floating_point() else 0.0
            for eps, x in zip(found, maker.values)]


def exported(maker: Maker) -> Any:
    return opgraft.freeze(maker.__call__, tuple(maker.inputs))


def traced(maker: Maker, disable: tuple[str, ...] = (),
           region: stats.Region | None = None) -> Any:
    """Without torch.export, which takes ten times as long."""
    region = region or stats.Region("random")
    options = backend.Options(disable=disable)
    compiled = aot_function(
        maker.__call__,
        fw_compiler=lambda gm, inputs: backend.compile_graph(
            gm, inputs, "inference", options, region),
        decompositions=backend._decompositions())
    # Tensors that a step brings along are the graph's own.
    context = TracingContext(FakeTensorMode(allow_non_fake_inputs=True))

    def call(*inputs: torch.Tensor) -> Any:
        with tracing(context):
            return compiled(*inputs)

    return call


def check(seed: int, make: Callable[[Maker], Any] = exported) -> bool:
    """False where there is nothing to compare. A step's rounding may turn a
    comparison, so exact types are only compared without one before them."""
    maker = Maker(seed)
    if not maker.steps:
        return False
    wanted = maker(*maker.inputs)
    with torch.no_grad():
        compiled = make(maker)
        for _ in range(2):
            compare(seed, maker, compiled(*maker.inputs), wanted)
    return True


def compare(seed: int, maker: Maker, found: Any, wanted: Any) -> None:
    said = f"seed {seed}: {[name for name, _, _ in maker.steps]}"
    limits = tolerances(maker)
    for a, b, k in zip(found, wanted, maker.kept, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape, said
        assert a.stride() == b.stride() or a.numel() < 2 or all(
            s == t or n == 1
            for s, t, n in zip(a.stride(), b.stride(), a.shape)), said
        limit = limits[k]
        off = (a.double() - b.double()).abs().max().item() if a.numel() else 0
        scale = max(1.0, b.double().abs().max().item()) if a.numel() else 1
        if any(name in ("lt", "ge", "eq", "sign") or ":" in name
               for name, _, _ in maker.steps) and off and limit == 0:
            continue  # a rounding turned a comparison
        assert not math.isnan(off) and off <= limit * scale, (said, off)


def test_some_random_functions() -> None:
    tried = sum(check(seed) for seed in range(15))
    assert tried >= 12


@pytest.mark.full
def test_many(rounds: Any) -> None:
    rounds(lambda seed: check(seed, traced), 10_500)
