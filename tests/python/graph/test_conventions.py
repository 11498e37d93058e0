# SPDX-License-Identifier: Apache-2.0
"""AOTAutograd's conventions at run time: what a compiled function does to what
it is given and what it gives, beside eager."""

from __future__ import annotations

import copy
import random
from typing import Any, Callable

import pytest
import torch

T = torch.Tensor
MODES: dict[str, Any] = {
    "default": {}, "max-autotune": {"mode": "max-autotune"},
    "dynamic": {"dynamic": True}}


def compiled(f: Any, **options: Any) -> Any:
    torch._dynamo.reset()
    return torch.compile(f, backend="opgraft", fullgraph=True, **options)


def fields(value: Any) -> Any:
    """What to compare: a subclass as its type and what it is made of."""
    if hasattr(value, "__tensor_flatten__"):
        names, context = value.__tensor_flatten__()
        return [type(value).__name__, value.requires_grad,
                *(fields(getattr(value, n)) for n in names)]
    if isinstance(value, T):
        return [type(value).__name__, value.requires_grad, value.is_leaf,
                value.detach()]
    if isinstance(value, (list, tuple)):
        return [fields(v) for v in value]
    return value


def equal(found: Any, wanted: Any) -> None:
    if isinstance(wanted, T):
        torch.testing.assert_close(found, wanted)
    elif isinstance(wanted, list):
        assert len(found) == len(wanted)
        for a, b in zip(found, wanted):
            equal(a, b)
    else:
        assert found == wanted


# --- Inputs that are written --------------------------------------------------
#
# A program is a list of steps for forward and one for backward, over buffers b,
# the input x or the gradient g (both v here), and what was kept.

BUFFERS = 2
STEPS: dict[str, Callable[..., Any]] = {
    "add": lambda s, i, v: s.b[i].add_(v.detach()),
    "scale": lambda s, i, v: s.b[i].mul_(0.5),
    "count": lambda s, i, v: s.b[i].add_(1),
    "copy": lambda s, i, v: s.b[i].copy_(v.detach() + 1),
    "part": lambda s, i, v: s.b[i][1:].add_(2),
    "turned": lambda s, i, v: s.b[i].t().mul_(s.b[1 - i]),
    "read": lambda s, i, v: s.out.append(s.b[i] * 3),
    "read part": lambda s, i, v: s.out.append(s.b[i][:1] + 1),
    "keep": lambda s, i, v: s.kept.append(s.b[i] * 2),
    "keep a view": lambda s, i, v: s.kept.append(s.b[i][0].cos()),
    "recall": lambda s, i, v: s.out.extend(s.kept),
}


class Steps:
    def __init__(self, b: list[T], kept: list[T]) -> None:
        self.b, self.kept, self.out = b, kept, []

    def run(self, steps: list[tuple[str, int]], v: T) -> T:
        for name, i in steps:
            STEPS[name](self, i, v)
        return v * sum((o.detach().sum() for o in self.out), 1.0)


def program(forward: list[tuple[str, int]], backward: list[tuple[str, int]]
            ) -> Callable[..., T]:
    class Program(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: T, *b: T) -> T:
            s = Steps(list(b), [])
            y = s.run(forward, x)
            ctx.b, ctx.count = b, len(s.kept)
            ctx.save_for_backward(*s.kept)
            return y

        @staticmethod
        def backward(ctx: Any, g: T) -> Any:
            s = Steps(list(ctx.b), list(ctx.saved_tensors))
            return s.run(backward, g), *[None] * BUFFERS

    return Program.apply


WRITES = {
    "by forward": ([("count", 0)], [("read", 1)]),
    "by backward": ([("read", 0)], [("count", 0)]),
    "by both": ([("count", 0)], [("count", 0), ("count", 0)]),
    "by both, kept": ([("keep", 0), ("add", 0)],
                      [("recall", 0), ("scale", 0)]),
    "by both, kept as a view": ([("keep a view", 0), ("part", 0)],
                                [("recall", 0), ("turned", 0)]),
    "both by both": ([("keep", 0), ("keep", 1), ("count", 0), ("turned", 1)],
                     [("recall", 0), ("copy", 1), ("add", 0)]),
}


def drawn(seed: int) -> tuple[list[tuple[str, int]], list[tuple[str, int]]]:
    draw = random.Random(seed)
    names = list(STEPS)

    def steps() -> list[tuple[str, int]]:
        return [(draw.choice(names), draw.randrange(BUFFERS))
                for _ in range(draw.randint(1, 5))]

    return steps(), steps()


def trained(f: Callable[..., T]) -> list[Any]:
    """The buffers and gradients of two steps."""
    torch.manual_seed(3)
    buffers = [torch.randn(3, 3) for _ in range(BUFFERS)]
    found: list[Any] = []
    for _ in range(2):
        x = torch.randn(3, 3, requires_grad=True)
        y = f(x, *buffers)
        y.sum().backward()
        found += [y.detach(), x.grad, *(b.clone() for b in buffers)]
    return found


def writes_hold(forward: Any, backward: Any, mode: str) -> None:
    f = program(forward, backward)
    equal(trained(compiled(f, **MODES[mode])), trained(f))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", WRITES)
def test_inputs_that_are_written(name: str, mode: str) -> None:
    writes_hold(*WRITES[name], mode)


@pytest.mark.parametrize("seed", range(24))
def test_drawn_writes(seed: int) -> None:
    writes_hold(*drawn(seed), list(MODES)[seed % len(MODES)])
