# SPDX-License-Identifier: Apache-2.0
"""Every form of batch norm is native: training or evaluation, forward and
gradient, with and without weights, batches of any size."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from compare import compiled, no_worse
from torch import nn

import opgraft


def step(model: Any, run: Any, x: torch.Tensor, weights: torch.Tensor) -> Any:
    model.zero_grad()
    x = x.clone().requires_grad_()
    y = run(x)
    (y * weights.to(y.dtype)).sum().backward()
    return [y, x.grad, *(p.grad for p in model.parameters()), *(
        b.clone() for b in model.buffers())]


@pytest.mark.parametrize("affine", [False, True])
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("sizes", [((4, 3, 5, 7),), (
    (2, 3, 5, 7), (5, 3, 5, 7), (3, 3, 8, 4))])
def test_batch_norm_is_native(affine: bool, training: bool,
                              sizes: tuple[tuple[int, ...], ...]) -> None:
    torch.manual_seed(3)
    model = nn.BatchNorm2d(3, affine=affine).train(training)
    model.running_mean.normal_()
    model.running_var.uniform_(0.5, 2)
    for p in model.parameters():
        nn.init.normal_(p)
    other, exact = copy.deepcopy(model), copy.deepcopy(model).double()
    c = compiled(other)
    for shape in sizes:
        x, w = torch.randn(shape), torch.randn(shape)
        no_worse(step(other, c, x, w), step(model, model, x, w),
                 step(exact, exact, x.double(), w))
    found = opgraft.stats(c)
    assert found.nodes and not found.fallbacks, found
