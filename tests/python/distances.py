# SPDX-License-Identifier: Apache-2.0
"""How far results are from float64, in units of torch's own distance."""

from __future__ import annotations

import math
from typing import Any, Callable

import torch


def results(tree: Any) -> list[torch.Tensor]:
    return [x.detach() for x in torch.utils._pytree.tree_leaves(tree)
            if isinstance(x, torch.Tensor)]


def ratios(f: Callable[..., Any], own: Callable[..., Any],
           draw: Callable[[torch.Generator], list[torch.Tensor]],
           draws: int = 5) -> list[float]:
    """Of each result: our distance to float64 over eager's, root mean square of
    the draws. Neither counts as less than that of rounding to the type."""
    ours: list[float] = []
    theirs: list[float] = []
    for seed in range(draws):
        inputs = draw(torch.Generator().manual_seed(seed))
        high = [x.double() if x.is_floating_point() else x for x in inputs]
        rows = zip(*(results(run(*given)) for run, given in (
            (own, inputs), (f, inputs), (f, high))), strict=True)
        for i, (found, eager, exact) in enumerate(rows):
            if seed == 0:
                ours.append(0.0)
                theirs.append(0.0)
            least = (torch.finfo(eager.dtype).eps / 2) ** 2
            scale = exact.square().sum()
            for total, x in ((ours, found), (theirs, eager)):
                error = (x.double() - exact).square().sum() / scale
                total[i] += max(error.item(), least)
    return [math.sqrt(a / b) for a, b in zip(ours, theirs, strict=True)]


def gradients(f: Callable[..., Any], inputs: list[torch.Tensor]) -> Any:
    """The result, and the gradients of all inputs under one that is a function
    of the result's place and has a mean."""
    own = [x.detach().requires_grad_() for x in inputs]
    y = f(*own)
    place = torch.arange(y.numel(), dtype=torch.float64).reshape(y.shape)
    grad = (1 + 0.5 * torch.sin(place)).float().to(y.dtype)
    return y, *torch.autograd.grad(y, own, grad)
