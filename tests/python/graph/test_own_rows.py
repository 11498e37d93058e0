# SPDX-License-Identifier: Apache-2.0
"""Contractions and attention whose workers have rows of their own: what rows
and heads a worker takes changes no bit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

import opgraft

T = torch.Tensor


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    with torch.no_grad():
        yield
    torch.set_num_threads(before)


def linear(x: T, w: T, b: T) -> T:
    return F.gelu(F.linear(x, w, b))


def heads(x: T, w: T, b: T) -> T:
    """Attention of heads of 32 over rows that a contraction makes."""
    q, k, v = F.linear(x, w, b).chunk(3, -1)
    y = F.scaled_dot_product_attention(*(
        t.unflatten(-1, (-1, 32)).transpose(-3, -2) for t in (q, k, v)))
    return y.transpose(-3, -2).flatten(-2)


@pytest.mark.parametrize("f,rows,columns,steps", [
    (linear, 197, 70, 93), (linear, 257, 48, 300), (linear, 530, 100, 77),
    (heads, 197, 288, 40), (heads, 131, 96, 64)])
def test_threads_change_no_bit(f: Callable[..., T], rows: int, columns: int,
                               steps: int, tmp_path: Path) -> None:
    rules = tmp_path / "rules"
    rules.write_text("addmm: packed\nmatmul: packed\nattention: fast\n")
    torch.manual_seed(0)
    x, b = torch.randn(1, rows, steps), torch.randn(columns)
    w = torch.randn(columns, steps) / 6

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w, self.b = torch.nn.Parameter(w), torch.nn.Parameter(b)

        def forward(self, x: T) -> T:
            return f(x, self.w, self.b)

    found = []
    for count in 1, 2, 3, 4:
        torch._dynamo.reset()
        torch.set_num_threads(count)
        call = torch.compile(Model().eval(), backend="opgraft", options={
            "mode": "max-autotune", "tune_s": 0, "choose": str(rules)})
        found.append(call(x))
        who = str(opgraft.stats(call).rules())
        assert "]: packed" in who
        assert ("]: fast" in who) == (f is heads)
    expected = f(x.double(), w.double(), b.double())
    torch.testing.assert_close(found[0].double(), expected, rtol=1e-4,
                               atol=1e-4)
    assert all(torch.equal(found[0], y) for y in found[1:])
