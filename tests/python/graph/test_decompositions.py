# SPDX-License-Identifier: Apache-2.0
"""The table of decompositions: under AOTAutograd composite operators are gone
before it is asked, so the graph is the same without them in it."""

from __future__ import annotations

from typing import Any, Callable

import pytest
import torch
import torch.nn.functional as F
from functorch.compile import (
    make_boxed_func,
    min_cut_rematerialization_partition,
)
from torch._dynamo.backends.common import aot_autograd

from opgraft._graph import targets

SQUARE = torch.randn(4, 4)
IMAGE = torch.randn(2, 4, 8, 8)
CASES: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {
    "products": (lambda x, y: torch.einsum("ij,jk->ik", x, y) @ F.linear(x, y)
                 + torch.linalg.multi_dot([x, y, x]) + torch.kron(x, y)[:4, :4],
                 (SQUARE, SQUARE + 1)),
    "attention": (lambda q, k, v: F.scaled_dot_product_attention(
        q, k, v, is_causal=True), tuple(torch.randn(1, 2, 5, 8)
                                        for _ in range(3))),
    "image": (lambda x: F.interpolate(
        F.conv2d(F.instance_norm(x), torch.ones(3, 4, 3, 3), padding="same"),
        scale_factor=2, mode="bilinear"), (IMAGE,)),
    "shuffles": (lambda x: torch.pixel_shuffle(
        F.unfold(x, 2).unflatten(-1, (7, 7)), 2).swapaxes(0, 1).ravel(),
        (IMAGE,)),
    "losses": (lambda x, y: F.huber_loss(x, y) + F.smooth_l1_loss(x, y)
               + F.cross_entropy(x, y.argmax(-1), label_smoothing=0.1)
               + F.cosine_similarity(x, y).sum()
               + F.kl_div(x, y, reduction="batchmean"),
               (SQUARE, SQUARE + 1)),
    "sums": (lambda x: torch.logsumexp(x, -1) + x.std(-1) + x.diff(dim=0)[0]
             + x.softmax(-1).var(-1), (SQUARE,)),
    "boxes": (lambda x: F.pad(x, (1, 1), mode="reflect").movedim(0, 1).tile(2)
              + F.glu(torch.cat([x, x], 1)).sum() + x.triu().trace(),
              (SQUARE,)),
}


def graph_text(f: Callable[..., Any], args: tuple[torch.Tensor, ...],
               table: dict[Any, Any]) -> list[str]:
    """The graphs that a compiler of AOTAutograd gets."""
    seen: list[str] = []

    def keep(graph: torch.fx.GraphModule, _: Any) -> Any:
        seen.append(str(graph.graph))
        return make_boxed_func(graph.forward)

    torch._dynamo.reset()
    y = torch.compile(f, backend=aot_autograd(
        fw_compiler=keep, bw_compiler=keep, decompositions=table,
        partition_fn=min_cut_rematerialization_partition))(*args)
    if y.requires_grad:
        y.sum().backward()
    return seen


@pytest.mark.parametrize("has_gradient", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_same_graph_without_composite_operators(
        name: str, has_gradient: bool) -> None:
    f, args = CASES[name]
    args = tuple(a.clone().requires_grad_(has_gradient) for a in args)
    short, whole = (targets.decompositions(is_export=e) for e in (False, True))
    found = graph_text(f, args, short)
    assert found == graph_text(f, args, whole)
    assert len(found) == 1 + has_gradient


def test_no_compile_lists_composite_operators(
        monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them are some hundred, and a fourth of a second."""
    import torch.export.decomp_utils as utils

    def refuse(*_: Any) -> None:
        raise AssertionError("the whole table")

    monkeypatch.setattr(utils.CustomDecompTable, "__init__", refuse)
    assert targets.decompositions()
    with pytest.raises(AssertionError, match="whole table"):
        targets.decompositions(is_export=True)
