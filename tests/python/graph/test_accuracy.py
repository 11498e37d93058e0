# SPDX-License-Identifier: Apache-2.0
"""Sums are as near to float64 as eager's; bench/accuracy.py has all of them."""

from __future__ import annotations

import functools
import math
from typing import Any, Callable

import pytest
import torch
import torch.nn.functional as F
from compare import compiled
from distances import ratios

from opgraft import ops


def near(f: Callable[..., Any], draw: Any, own: Any = None) -> None:
    worst = max(ratios(f, own or compiled(f), draw))
    assert worst <= 2, f"{worst:.3g} times eager's"


def test_means_of_batch_norm_in_training() -> None:
    def mean(x: torch.Tensor) -> torch.Tensor:
        running = torch.zeros(x.shape[1], dtype=x.dtype)
        y = F.batch_norm(x, running, torch.ones_like(running), training=True,
                         momentum=1.0)
        return running + 0 * y.sum()

    def draw(g: torch.Generator) -> list[torch.Tensor]:
        x = torch.randn(4, 16, 56, 56, generator=g)
        x[:, :, 0, 0] += 3  # far from the mean
        return [x]

    near(mean, draw)


STAGES = ("y", "mean", "invstd", "running mean", "running variance",
          "gradient of x", "of weight", "of bias")


def batch_norm_stages(x: torch.Tensor, weight: torch.Tensor,
                      bias: torch.Tensor, grad: torch.Tensor) -> Any:
    inputs = [t.detach().requires_grad_() for t in (x, weight, bias)]
    running = torch.zeros_like(weight), torch.ones_like(weight)
    y, mean, invstd = torch.native_batch_norm(
        *inputs, *running, training=True, momentum=0.1, eps=1e-5)
    return (y, mean, invstd, *running, *torch.autograd.grad(y, inputs, grad))


def batch(g: torch.Generator, shape: tuple[int, ...], mean: float,
          order: torch.memory_format) -> list[torch.Tensor]:
    x, grad = (torch.randn(shape, generator=g) for _ in range(2))
    return [(x + mean).contiguous(memory_format=order),
            torch.rand(shape[1], generator=g) + 0.5,
            torch.randn(shape[1], generator=g),
            grad.contiguous(memory_format=order)]


@pytest.mark.parametrize("mean", [0, 1, 30])
@pytest.mark.parametrize("order", [torch.contiguous_format,
                                   torch.channels_last])
def test_each_stage_of_batch_norm_in_training(order: torch.memory_format,
                                              mean: int) -> None:
    """Also where the mean is large beside the deviation: the last stages of a
    network at its start."""
    found: dict[str, list[float]] = {}
    run = compiled(batch_norm_stages, dynamic=True)
    for shape in ((3, 24, 1, 1), (2, 24, 2, 2), (2, 24, 7, 7), (4, 24, 9, 9)):
        draw = functools.partial(batch, shape=shape, mean=mean, order=order)
        for stage, ratio in zip(STAGES, ratios(
                batch_norm_stages, run, draw, 10), strict=True):
            found.setdefault(stage, []).append(ratio)
    for stage, each in found.items():
        middle = math.exp(sum(map(math.log, each)) / len(each))
        assert max(each) <= 2 and middle <= 1.2, f"{stage}: {each}"


def test_rounding_of_batch_norm_does_not_shift_channels() -> None:
    """What is rounded in the same way all over a channel adds up in what is
    made of it: the means of later layers, the gradients of earlier biases."""
    run = compiled(batch_norm_stages)
    shifts = [[0.0, 0.0] for _ in range(2)]
    for seed in range(5):
        g = torch.Generator().manual_seed(seed)
        x, _, bias, grad = batch(g, (2, 24, 48, 48), 0, torch.contiguous_format)
        inputs = [x, torch.ones_like(bias), torch.zeros_like(bias), grad]
        exact = batch_norm_stages(*(t.double() for t in inputs))
        for who, f in enumerate((run, batch_norm_stages)):
            found = f(*inputs)
            for i, stage in enumerate(("y", "gradient of x")):
                at = STAGES.index(stage)
                shift = (found[at].double() - exact[at]).mean((0, 2, 3))
                shifts[i][who] += shift.square().mean().item()
    for ours, theirs in shifts:
        assert ours <= 4 * theirs, shifts


def test_sums_of_16_bit_scatters() -> None:
    index = torch.arange(400) % 5
    places = index[:, None].repeat(1, 24)
    signs = (1 - 2 * (torch.arange(400) // 5 % 2))[:, None]

    def draw(g: torch.Generator) -> list[torch.Tensor]:
        x = 1 + 0.01 * torch.randn(400, 24, generator=g)
        return [(x * signs).bfloat16()]

    near(lambda x: torch.zeros_like(x[:5]).index_add(0, index, x), draw)
    near(lambda x: torch.zeros_like(x[:5]).scatter_add(0, places, x), draw)


def test_gradients_of_norm_weights_over_many_rows() -> None:
    def gradient(norm: Callable[..., torch.Tensor]
                 ) -> Callable[..., torch.Tensor]:
        def run(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
            w = w.detach().requires_grad_()
            y = norm(x, w)
            return torch.autograd.grad(y, w, torch.ones_like(y))[0]
        return run

    near(gradient(lambda x, w: F.rms_norm(x, w.shape, w, 1e-6)),
         lambda g: [torch.randn(3000, 64, generator=g) + 1000,
                    torch.randn(64, generator=g)],
         gradient(ops.rms_norm))
