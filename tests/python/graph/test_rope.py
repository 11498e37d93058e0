# SPDX-License-Identifier: Apache-2.0
"""Mode max-autotune: a rotary embedding, whose halves change places, is one
row program; what is around it computes what eager mode does."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from compare import no_worse

import opgraft

T = torch.Tensor


def compiled(f: Any, **more: Any) -> Any:
    torch._dynamo.reset()
    return torch.compile(f, backend="opgraft",
                         options={"mode": "max-autotune"}, **more)


def turned(x: T) -> T:
    a, b = x.chunk(2, -1)
    return torch.cat([-b, a], -1)


def rotate(x: T, c: T, s: T) -> T:
    return x * c + turned(x) * s


def angles(tokens: int, width: int, dtype: torch.dtype) -> tuple[T, T]:
    rate = 1e4 ** (-torch.arange(width // 2) * 2 / width)
    angle = (torch.arange(tokens)[:, None] * rate).repeat(1, 2)
    return angle.cos().to(dtype), angle.sin().to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", [(2, 3, 7, 64), (1, 2, 300, 10), (5, 6),
                                   (1, 1, 1, 2), (0, 8)])
def test_values(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    x = torch.randn(shape, dtype=dtype)
    c, s = angles(shape[-2] if len(shape) > 1 else 1, shape[-1], dtype)
    f = compiled(rotate, dynamic=False)
    with torch.no_grad():
        found, wanted = f(x, c, s), rotate(x, c, s)
        exact = rotate(x.double(), c.double(), s.double())
    assert found.dtype == dtype and found.stride() == wanted.stride()
    no_worse(found, wanted, exact)
    stats = opgraft.stats(f)
    if x.numel() > 0 and shape[-1] > 2:  # one element is not a row
        assert (stats.row_programs, stats.unfused) == (1, []), str(stats)


def test_layouts_of_attention() -> None:
    """Heads are transposed before, and the product reads after."""
    def scores(x: T, c: T, s: T) -> T:
        q = x.unflatten(-1, (4, 16)).transpose(1, 2)
        return rotate(q, c, s) @ rotate(q * 0.5, c, s).transpose(-1, -2)

    x = torch.randn(2, 9, 64)
    c, s = angles(9, 16, torch.float32)
    with torch.no_grad():
        found, wanted = compiled(scores)(x, c, s), scores(x, c, s)
        exact = scores(x.double(), c.double(), s.double())
    no_worse(found, wanted, exact)


def test_sizes_that_vary() -> None:
    f = compiled(rotate, dynamic=True)
    with torch.no_grad():
        for tokens in (3, 17, 40):
            x = torch.randn(2, tokens, 32)
            c, s = angles(tokens, 32, torch.float32)
            exact = rotate(x.double(), c.double(), s.double())
            no_worse(f(x, c, s), rotate(x, c, s), exact)


def test_gradients() -> None:
    c, s = angles(9, 32, torch.float32)
    x = torch.randn(2, 9, 32)
    found, wanted = (x.clone().requires_grad_() for _ in range(2))
    compiled(rotate)(found, c, s).square().sum().backward()
    rotate(wanted, c, s).square().sum().backward()
    torch.testing.assert_close(found.grad, wanted.grad)


def test_a_norm_before_and_a_reader_of_the_halves() -> None:
    """What is normalised is stored, because the other half is read."""
    def block(x: T, w: T, c: T, s: T) -> tuple[T, T, T]:
        y = torch.nn.functional.rms_norm(x, x.shape[-1:], w, 1e-6)
        z = turned(y)
        return y * c + z * s, z.sum(-1), torch.relu(z).amax(-1)

    x, w = torch.randn(4, 9, 32), torch.rand(32)
    c, s = angles(9, 32, torch.float32)
    with torch.no_grad():
        found, wanted = compiled(block)(x, w, c, s), block(x, w, c, s)
        exact = block(x.double(), w.double(), c.double(), s.double())
    no_worse(found, wanted, exact)
