# SPDX-License-Identifier: Apache-2.0
"""Long sums of every operator that has one are as near to float64 as torch's:
10^6 terms, or as many as the operator takes."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, Callable

import pytest
import torch
import torch.nn.functional as F
from distances import gradients, ratios

MILLION = 1_000_000
WIDE = 131_070  # the widest row of a contraction
Shapes = list[tuple[int, ...]]


@dataclass
class Sum:
    """What is summed, ours, torch's, and the shapes of the inputs."""

    name: str
    own: Callable[[Any], Callable[..., Any]]  # of the library
    theirs: Callable[..., Any]
    shapes: Shapes
    trained: bool = True


def rms(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return F.rms_norm(x, w.shape, w, 1e-6)


def layer(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return F.layer_norm(x, w.shape, w, b)


def added(x: torch.Tensor, r: torch.Tensor, w: torch.Tensor) -> Any:
    return rms(x + r, w), x + r


def merged(v: torch.Tensor, s: torch.Tensor) -> Any:
    return (torch.softmax(s, 1)[..., None] * v).sum(1), torch.logsumexp(s, 1)


def merge_of(ops: Any) -> Callable[..., Any]:
    return lambda v, s: ops.merge_states(v, s, lse_base="e")


def packed_of(ops: Any) -> Callable[..., Any]:
    return lambda x, w: ops.linear_packed(
        x, ops.linear_prepack(w), out_features=w.shape[0])


def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    heads = [x.transpose(0, 1)[None] for x in (q, k, v)]
    return F.scaled_dot_product_attention(*heads)[0].transpose(0, 1)


def ragged_of(ops: Any) -> Callable[..., Any]:
    def run(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
        plan = ops.plan_attention(
            torch.tensor([0, k.shape[0]]), torch.tensor([0, q.shape[0]]),
            q.shape[1], k.shape[1], q.shape[2])
        return ops.batch_prefill_ragged(
            plan.plan, q, k, v, split_bytes=plan.split_bytes)[0]
    return run


def experts_of(ops: Any) -> Callable[..., Any]:
    def run(x: torch.Tensor, w13: torch.Tensor, w2: torch.Tensor) -> Any:
        one = torch.ones(x.shape[0], 1)
        return ops.fused_moe(
            x, ops.fused_moe_prepack(w13), ops.fused_moe_prepack(w2), one,
            torch.zeros_like(one, dtype=torch.int32), inner=w2.shape[2])
    return run


def experts(x: torch.Tensor, w13: torch.Tensor, w2: torch.Tensor) -> Any:
    gate, up = F.linear(x, w13[0]).chunk(2, -1)
    return F.linear(F.silu(gate) * up, w2[0])


SUMS = [
    Sum("rms_norm rows", lambda ops: ops.rms_norm, rms,
        [(3, MILLION), (MILLION,)]),
    Sum("rms_norm columns", lambda ops: ops.rms_norm, rms,
        [(MILLION, 4), (4,)]),
    Sum("layer_norm rows", lambda ops: ops.layer_norm, layer,
        [(3, MILLION), (MILLION,), (MILLION,)]),
    Sum("layer_norm columns", lambda ops: ops.layer_norm, layer,
        [(MILLION, 4), (4,), (4,)]),
    Sum("gemma_rms_norm", lambda ops: ops.gemma_rms_norm,
        lambda x, w: rms(x, 1 + w), [(3, MILLION), (MILLION,)]),
    Sum("fused_add_rms_norm", lambda ops: ops.fused_add_rms_norm_functional,
        added, [(3, MILLION), (3, MILLION), (MILLION,)], trained=False),
    Sum("linear, few rows", lambda ops: ops.linear, F.linear,
        [(3, WIDE), (5, WIDE), (5,)]),
    Sum("linear, more rows", lambda ops: ops.linear, F.linear,
        [(20, WIDE), (5, WIDE), (5,)]),
    Sum("linear, gradients over rows", lambda ops: ops.linear, F.linear,
        [(MILLION, 4), (5, 4), (5,)]),
    Sum("linear, gradients over columns", lambda ops: ops.linear, F.linear,
        [(5, 4), (MILLION, 4), (MILLION,)]),
    Sum("linear_packed", packed_of, F.linear, [(20, WIDE), (5, WIDE)],
        trained=False),
    Sum("fused_moe, up", experts_of, experts,
        [(6, WIDE), (1, 32, WIDE), (1, WIDE, 16)], trained=False),
    Sum("fused_moe, down", experts_of, experts,
        [(6, 16), (1, 2 * WIDE, 16), (1, 16, WIDE)], trained=False),
    Sum("topk_softmax", lambda ops: lambda x: ops.topk_softmax(x, 8)[0],
        lambda x: x.softmax(-1).topk(8)[0], [(3, MILLION)], trained=False),
    Sum("merge_states", merge_of, merged, [(8, 20_000, 1, 4), (8, 20_000, 1)],
        trained=False),
    Sum("attention over keys", ragged_of, attend,
        [(40, 1, 16), (50_000, 1, 16), (50_000, 1, 16)]),
    Sum("attention over queries", ragged_of, attend,
        [(50_000, 1, 16), (8, 1, 16), (8, 1, 16)]),
]


@pytest.mark.parametrize("mean", [0, 1])
@pytest.mark.parametrize("case", SUMS, ids=lambda case: case.name)
def test_long_sums(ops: Any, case: Sum, mean: int) -> None:
    def draw(g: torch.Generator) -> list[torch.Tensor]:
        return [torch.randn(shape, generator=g) + mean
                for shape in case.shapes]

    own, theirs = case.own(ops), case.theirs
    if case.trained:
        own, theirs = (functools.partial(
            lambda f, *inputs: gradients(f, list(inputs)), f)
            for f in (own, theirs))
    found = ratios(theirs, own, draw, draws=2)
    assert max(found) <= 2, found
