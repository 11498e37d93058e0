# SPDX-License-Identifier: Apache-2.0
"""How far a compiled model is from float64, in units of eager's own distance.

tests/python/graph/test_models.py takes the small ones, tests/sweep/models.py
every model in every form.
"""

from __future__ import annotations

import contextlib
import copy
from dataclasses import dataclass, field
from typing import Any

import models
import torch
from compare import compiled, values
from torch import nn

FORMS = ("f32", "bf16", "autocast")
FACTOR = 2.0  # of eager's distance
STEPS = 20
# Draws of weights that gradients are compared at, of small and of full models.
# Of one draw's many tensors eager's distance is small by chance for some.
DRAWS = {False: 8, True: 2}
# Tensors of a gradient that are this small beside the largest are noise: the
# gradient of a key's bias is zero.
NOISE = 1e-3


@dataclass
class Worst:
    """The largest ratio of a tensor's distance to eager's. What is added
    several times, as a training step is, counts with its mean square: of
    thousands of single distances one of eager's is small by chance."""

    # Of each tensor: ours, eager's, how many, half a unit in the last place.
    squares: list[list[float]] = field(default_factory=list)

    def add(self, found: Any, eager: Any, exact: Any) -> None:
        rows = [values(found), values(eager), values(exact)]
        largest = max((size(e) for e in rows[2] if e.is_floating_point()),
                      default=0.0)
        self.squares = self.squares or [[0.0] * 4 for _ in rows[0]]
        for total, f, a, e in zip(self.squares, *rows, strict=True):
            assert f.shape == e.shape and f.dtype == a.dtype
            if not e.is_floating_point():
                assert torch.equal(f, a)
                continue
            scale = max(size(e), NOISE * largest, 1e-30)
            total[0] += (size(f.double() - e) / scale) ** 2
            total[1] += (size(a.double() - e) / scale) ** 2
            total[2] += 1
            total[3] = torch.finfo(a.dtype).eps / 2

    def distances(self) -> list[tuple[float, float]]:
        return [((a / n) ** 0.5, max((b / n) ** 0.5, floor))
                for a, b, n, floor in self.squares if n]

    @property
    def ratio(self) -> float:
        ratios = [a / b for a, b in self.distances()]
        return (float("nan") if any(r != r for r in ratios)
                else max(ratios, default=0.0))

    @property
    def where(self) -> str:
        rows = self.distances()
        worst = max(range(len(rows)), default=None,
                    key=lambda i: rows[i][0] / rows[i][1])
        return "" if worst is None else (
            f"tensor {worst}: {rows[worst][0]:.3g} from float64, eager "
            f"{rows[worst][1]:.3g}")


@dataclass
class Found:
    """Of one model in one form."""

    forward: Worst = field(default_factory=Worst)
    gradients: Worst = field(default_factory=Worst)
    training: Worst = field(default_factory=Worst)
    compiled: Any = None

    def ratios(self) -> dict[str, float]:
        return {k: getattr(self, k).ratio
                for k in ("forward", "gradients", "training")}

    def check(self) -> None:
        for kind in ("forward", "gradients", "training"):
            worst = getattr(self, kind)
            assert worst.ratio <= FACTOR, f"{kind}, {worst.where}"


def size(x: torch.Tensor) -> float:
    """The root of the mean square."""
    return x.double().square().mean().sqrt().item() if x.numel() else 0.0


def convert(tree: Any, dtype: torch.dtype) -> Any:
    return torch.utils._pytree.tree_map(
        lambda x: x.to(dtype)
        if isinstance(x, torch.Tensor) and x.is_floating_point() else x, tree)


def set_type(model: nn.Module, dtype: torch.dtype) -> nn.Module:
    out = copy.deepcopy(model).to(dtype)
    for module in out.modules():
        config = getattr(module, "config", None)
        if config is not None and getattr(config, "torch_dtype", None):
            config.torch_dtype = dtype
        if dtype == torch.float64 and hasattr(
                config, "_experts_implementation"):
            config._experts_implementation = "eager"  # the others lack it
    return out


class Setting:
    """A model, its arguments, and both as float64."""

    def __init__(self, name: str, form: str, full: bool) -> None:
        torch.manual_seed(1)
        self.trained = models.ALL[name].trained
        model, args, kwargs = models.ALL[name].build(full)
        if form == "bf16":  # both start from the rounded numbers
            model = set_type(model, torch.bfloat16)
            args, kwargs = convert((args, kwargs), torch.bfloat16)
        self.model, self.args, self.kwargs = model, args, kwargs
        self.exact = set_type(model, torch.float64)
        self.exact_args = convert((args, kwargs), torch.float64)
        self.mode = (torch.autocast("cpu", torch.bfloat16)
                     if form == "autocast" else contextlib.nullcontext())

    def step(self, model: nn.Module, run: Any) -> list[Any]:
        """The result, then the gradients. Dropout draws the same numbers for
        every type."""
        exact = model is self.exact
        args, kwargs = self.exact_args if exact else (self.args, self.kwargs)
        model.zero_grad()
        torch.manual_seed(2)
        with contextlib.nullcontext() if exact else self.mode:
            out = run(*args, **kwargs)
            loss = (out if exact else out.float()).square().mean()
        loss.backward()
        return [out.detach(), *(p.grad.clone() for p in model.parameters()
                                if p.grad is not None)]


def redraw(s: Setting) -> None:
    """Moves every weight by about a percent, in the model and its float64."""
    with torch.no_grad():
        for p, e in zip(s.model.parameters(), s.exact.parameters(),
                        strict=True):
            if p.is_floating_point():
                p.mul_(1 + 0.01 * torch.randn(p.shape).to(p.dtype))
                e.copy_(p)


def measure(name: str, form: str, full: bool) -> Found:
    """Forward twice, then result and gradients at several draws of weights."""
    found, s = Found(), Setting(name, form, full)
    for model in (s.model, s.exact):
        model.eval()
    c = compiled(s.model)
    with torch.no_grad():
        exact_args, exact_kwargs = s.exact_args
        wanted = [s.exact(*exact_args, **exact_kwargs), exact_args]
        with s.mode:
            # What it writes in place is a result too.
            ours, theirs = copy.deepcopy((s.args, s.args))
            eager = [s.model(*theirs, **s.kwargs), theirs]
            for _ in range(2):
                out = [c(*ours, **s.kwargs), ours]
                found.forward.add(out, eager, wanted)
    for draw in range(DRAWS[full] if s.trained else 0):
        if draw > 0:
            redraw(s)
        found.gradients.add(
            s.step(s.model, c), s.step(s.model, s.model),
            s.step(s.exact, s.exact))
    found.compiled = c
    return found


def train(name: str, form: str, found: Found) -> None:
    """Twenty steps, each from eager's weights, dropout on. Buffers that a
    step writes are results too."""
    s = Setting(name, form, full=False)
    other = copy.deepcopy(s.model)
    for model in (s.model, s.exact, other):
        model.train()
    c = compiled(other)
    optimizer = torch.optim.SGD(s.model.parameters(), 0.05)
    for _ in range(STEPS):
        for model in (other, s.exact):
            model.load_state_dict(s.model.state_dict())
        found.training.add(*(
            [*s.step(model, run), *(b.clone() for b in model.buffers())]
            for model, run in ((other, c), (s.model, s.model),
                               (s.exact, s.exact))))
        optimizer.step()
