# SPDX-License-Identifier: Apache-2.0
"""options={"math": "strict"}: functions in fused loops have libm's bits."""

from __future__ import annotations

import ctypes
import ctypes.util
from typing import Any, Callable

import numpy as np
import pytest
import torch

import opgraft

T = torch.Tensor
LIBM = ctypes.CDLL(ctypes.util.find_library("m"))


def libm(name: str) -> Callable[[np.ndarray], np.ndarray]:
    """A function of floats on arrays, one call an element."""
    function = getattr(LIBM, f"{name}f")
    function.restype, function.argtypes = ctypes.c_float, [ctypes.c_float]

    def run(x: np.ndarray) -> np.ndarray:
        flat = [function(float(v)) for v in x.ravel()]
        return np.array(flat, np.float32).reshape(x.shape)

    return run


def compiled(f: Any, **options: Any) -> Any:
    torch._dynamo.reset()
    return torch.compile(f, backend="opgraft",
                         options={"mode": "max-autotune", **options})


def chain(x: T, y: T) -> tuple[T, T]:
    return torch.tanh(torch.exp(x) * y), torch.erf(x) + torch.log(y)


def test_bits_are_libm_s() -> None:
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(40, 333, generator=generator) * 3
    y = torch.rand(40, 333, generator=generator) + 1e-3
    exp, tanh, erf, log = map(libm, ("exp", "tanh", "erf", "log"))
    a, b = x.numpy(), y.numpy()
    wanted = tanh(exp(a) * b), erf(a) + log(b)
    strict = compiled(chain, math="strict")
    for found, exact in zip(strict(x, y), wanted, strict=True):
        assert np.array_equal(found.numpy(), exact)
    assert opgraft.stats(strict).row_programs == 1
    fast = compiled(chain)
    assert not all(np.array_equal(found.numpy(), exact)
                   for found, exact in zip(fast(x, y), wanted, strict=True))


def test_another_word_is_refused() -> None:
    with pytest.raises(Exception, match="math is 'exact', expected one of fast, strict"):
        compiled(chain, math="exact")(torch.ones(2), torch.ones(2))
