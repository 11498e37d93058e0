# SPDX-License-Identifier: Apache-2.0
"""Complex values: each operator on them is a fallback that is named, and the
graph around them stays native."""

from __future__ import annotations

import torch

import opgraft


def spectrum(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    f = torch.fft.rfft(torch.tanh(x) * 2)
    y = torch.fft.irfft(f * w, n=x.shape[-1])
    return torch.relu(y) + x.exp()


def run(dynamic: bool, grad: bool) -> None:
    torch._dynamo.reset()
    torch.manual_seed(1)
    x = torch.randn(3, 16, requires_grad=grad)
    w = torch.randn(9, dtype=torch.complex64)
    compiled = torch.compile(spectrum, backend="opgraft", dynamic=dynamic)
    found, wanted = compiled(x, w), spectrum(x, w)
    torch.testing.assert_close(found, wanted)
    if grad:
        ours, = torch.autograd.grad(found.sum(), x)
        theirs, = torch.autograd.grad(wanted.sum(), x)
        torch.testing.assert_close(ours, theirs)
    stats = opgraft.stats(compiled)
    assert stats.graphs
    names = {f["operator"] for f in stats.fallbacks}
    assert {"aten._fft_r2c.default", "aten._fft_c2r.default",
            "aten.mul.Tensor"} <= names
    assert not names & {"aten.tanh.default", "aten.relu.default",
                        "aten.exp.default"}
    assert all(f["reason"] for f in stats.fallbacks)
    assert stats.nodes - len(stats.fallbacks) >= 5


def test_complex_values_are_named_fallbacks() -> None:
    run(dynamic=False, grad=False)


def test_gradients_through_complex_values_are_named_fallbacks() -> None:
    run(dynamic=False, grad=True)


def test_complex_values_of_dynamic_sizes_are_named_fallbacks() -> None:
    run(dynamic=True, grad=False)
