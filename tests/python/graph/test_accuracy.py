# SPDX-License-Identifier: Apache-2.0
"""Sums are as near to float64 as eager's; bench/accuracy.py has all of them."""

from __future__ import annotations

from typing import Any, Callable

import torch
import torch.nn.functional as F
from compare import compiled

from opgraft import ops


def distances(f: Callable[..., torch.Tensor], own: Callable[..., torch.Tensor],
              draw: Callable[[torch.Generator], list[torch.Tensor]]
              ) -> tuple[float, float]:
    """Squared distances of ours and of eager's over five draws; neither counts
    as less than that of rounding to the type."""
    ours = theirs = 0.0
    for seed in range(5):
        inputs = draw(torch.Generator().manual_seed(seed))
        exact = f(*[x.double() if x.is_floating_point() else x
                    for x in inputs])
        eager = f(*inputs)
        least = (torch.finfo(eager.dtype).eps / 2) ** 2
        scale = exact.square().sum()
        for found, add in ((own(*inputs), 0), (eager, 1)):
            error = ((found.double() - exact).square().sum() / scale).item()
            if add:
                theirs += max(error, least)
            else:
                ours += max(error, least)
    return ours, theirs


def near(f: Callable[..., torch.Tensor], draw: Any, own: Any = None) -> None:
    ours, theirs = distances(f, own or compiled(f), draw)
    assert ours <= 4 * theirs, f"{(ours / theirs) ** 0.5:.3g} times eager's"


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
