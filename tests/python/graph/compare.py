# SPDX-License-Identifier: Apache-2.0
"""Compiled against eager, and both against float64."""

from __future__ import annotations

import copy
from typing import Any, Callable

import torch


def compiled(f: Any, **kwargs: Any) -> Any:
    return torch.compile(f, backend="opgraft", **kwargs)


def values(tree: Any) -> list[torch.Tensor]:
    flat, _ = torch.utils._pytree.tree_flatten(tree)
    return [x.detach() for x in flat if isinstance(x, torch.Tensor)]


def errors(found: Any, exact: Any) -> list[float]:
    """The largest distance of each tensor to the float64 one, relative to the
    largest value there."""
    out = []
    for a, b in zip(values(found), values(exact), strict=True):
        assert a.shape == b.shape
        if not b.is_floating_point() and not b.is_complex():
            assert torch.equal(a.to(b.dtype), b)
            continue
        scale = b.abs().max().item() if b.numel() else 0.0
        distance = (a.to(b.dtype) - b).abs().max().item() if b.numel() else 0.0
        assert distance == distance, "not a number"
        out.append(distance / max(scale, 1e-6))
    return out


def no_worse(found: Any, eager: Any, exact: Any, slack: float = 1e-6,
             factor: float = 2.0) -> None:
    """Each tensor is at most `factor` as far from float64 as eager's."""
    theirs = errors(eager, exact)
    ours = errors(found, exact)
    for i, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        assert a <= factor * b + slack, (
            f"tensor {i}: {a:.3g} from float64, eager {b:.3g}")


def layout(x: torch.Tensor) -> list[int]:
    """Strides, where they say something."""
    return [] if x.numel() == 0 else [
        s for n, s in zip(x.shape, x.stride(), strict=True) if n > 1]


def same(found: Any, wanted: Any, **tolerance: Any) -> None:
    for a, b in zip(values(found), values(wanted), strict=True):
        torch.testing.assert_close(a, b, **tolerance)
        assert layout(a) == layout(b)


def check(f: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Eager and compiled, from equal arguments: equal results and equal
    arguments afterwards. The compiled function."""
    mine = copy.deepcopy(args)
    theirs = copy.deepcopy(args)
    c = compiled(f, **kwargs)
    wanted = f(*theirs)
    found = c(*mine)
    same(found, wanted)
    same(mine, theirs)
    return c
