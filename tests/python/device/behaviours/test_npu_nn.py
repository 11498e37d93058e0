# SPDX-License-Identifier: Apache-2.0
"""Behaviours of recurrent networks and of attention."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest
import torch
from on_npu import same
from torch import nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend

CLOSE = 1e-5


def compare(module: nn.Module, x: Any, hidden: Any = None) -> Any:
    """Results on the device, after a comparison with those on the CPU."""
    with torch.no_grad():
        wanted = module(x) if hidden is None else module(x, hidden)
        moved = (None if hidden is None else
                 tuple(h.npu() for h in hidden))
        module.npu()
        found = module(x.npu()) if hidden is None else module(x.npu(), moved)
    flat_found, _ = torch.utils._pytree.tree_flatten(found)
    flat_wanted, _ = torch.utils._pytree.tree_flatten(wanted)
    for a, b in zip(flat_found, flat_wanted, strict=True):
        same(a, b, CLOSE)
    return found


@pytest.mark.behaviour("rnn", "an LSTM has the CPU's values")
def test_lstm(npu: Any) -> None:
    """Output and both states, of sequences of five steps."""
    output, (h, c) = compare(nn.LSTM(10, 20), torch.randn(5, 2, 10))
    assert output.shape == (5, 2, 20) and h.shape == c.shape == (1, 2, 20)


@pytest.mark.behaviour("rnn", "an LSTM may have several layers")
def test_layers(npu: Any) -> None:
    """Three layers have three states."""
    output, (h, c) = compare(nn.LSTM(10, 20, num_layers=3),
                             torch.randn(5, 2, 10))
    assert output.shape == (5, 2, 20) and h.shape == c.shape == (3, 2, 20)


@pytest.mark.behaviour("rnn", "an LSTM may read in both directions")
def test_bidirectional(npu: Any) -> None:
    """Two directions give twice the features and the states."""
    output, (h, c) = compare(
        nn.LSTM(8, 16, num_layers=2, bidirectional=True),
        torch.randn(4, 3, 8))
    assert output.shape == (4, 3, 32) and h.shape == c.shape == (4, 3, 16)


@pytest.mark.behaviour("rnn", "an LSTM may have the batch first")
def test_batch_first(npu: Any) -> None:
    """The output has the batch first too."""
    output, _ = compare(nn.LSTM(10, 20, batch_first=True),
                        torch.randn(2, 5, 10))
    assert output.shape == (2, 5, 20)


@pytest.mark.behaviour("rnn", "an LSTM starts from states that are given")
def test_initial_state(npu: Any) -> None:
    """Other states give other values, those of the CPU."""
    compare(nn.LSTM(10, 20), torch.randn(5, 2, 10),
            (torch.randn(1, 2, 20), torch.randn(1, 2, 20)))


@pytest.mark.behaviour("rnn", "an LSTM reads a packed sequence")
def test_packed_sequence(npu: Any) -> None:
    """Sequences of five, three and one steps in one batch."""
    packed = nn.utils.rnn.pack_sequence(
        [torch.randn(n, 10) for n in (5, 3, 1)])
    lstm = nn.LSTM(10, 20)
    with torch.no_grad():
        wanted, (h, c) = lstm(packed)
        found, (h_npu, c_npu) = lstm.npu()(packed.to("npu"))
    same(found.data, wanted.data, CLOSE)
    same(h_npu, h, CLOSE)
    same(c_npu, c, CLOSE)


@pytest.mark.behaviour("rnn", "an LSTM has the CPU's gradients")
def test_lstm_backward(npu: Any) -> None:
    """Gradients of the weights and of the input."""
    lstm, twin = nn.LSTM(4, 3), nn.LSTM(4, 3)
    twin.load_state_dict(lstm.state_dict())
    twin.npu()
    x = torch.randn(5, 2, 4, requires_grad=True)
    y = x.detach().npu().requires_grad_()
    lstm(x)[0].sum().backward()
    twin(y)[0].sum().backward()
    assert x.grad is not None and y.grad is not None
    same(y.grad, x.grad, CLOSE)
    for a, b in zip(twin.parameters(), lstm.parameters(), strict=True):
        assert a.grad is not None and b.grad is not None
        same(a.grad, b.grad, CLOSE)


def numbers(module: nn.Module, sequence: Any) -> list[torch.Tensor]:
    """What a module gives, and the gradients of its parameters."""
    torch.manual_seed(5)  # of dropout
    flat, _ = torch.utils._pytree.tree_flatten(module(sequence))
    results = [t for t in flat if isinstance(t, torch.Tensor)
               and t.is_floating_point()]
    sum((t * t).sum() for t in results).backward()
    return [*(t.detach() for t in results),
            *(p.grad for p in module.parameters())]


@pytest.mark.behaviour("rnn", "options of LSTM and GRU have the CPU's numbers")
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
@pytest.mark.parametrize("options", [
    {"num_layers": 2}, {"bidirectional": True}, {"bias": False},
    {"batch_first": True}, {"num_layers": 2, "dropout": 0.5},
    {"num_layers": 2, "bidirectional": True, "bias": False}])
@pytest.mark.parametrize("is_packed", [False, True])
def test_options(npu: Any, kind: Any, options: Any, is_packed: bool) -> None:
    """Results and gradients, also of packed sequences."""
    torch.manual_seed(2)
    here = kind(4, 3, **options)
    there = copy.deepcopy(here).npu()
    x = torch.randn(4, 4, 4)
    wanted, found = (
        numbers(module, nn.utils.rnn.pack_padded_sequence(
            t, [4, 2, 2, 1], batch_first="batch_first" in options)
            if is_packed else t)
        for module, t in ((here, x), (there, x.npu())))
    for a, b in zip(found, wanted, strict=True):
        same(a, b, CLOSE)


@pytest.mark.behaviour("rnn", "cells have right gradients")
@pytest.mark.parametrize("kind", [nn.LSTMCell, nn.GRUCell])
def test_cell_gradients(npu: Any, kind: Any) -> None:
    """By finite differences, the second ones too."""
    cell = kind(3, 2).double().npu()
    x = torch.randn(2, 3, dtype=torch.double).npu().requires_grad_()
    assert torch.autograd.gradcheck(cell, x)
    assert torch.autograd.gradgradcheck(cell, x)


@pytest.mark.behaviour("rnn", "a GRU has the CPU's values")
def test_gru(npu: Any) -> None:
    """Output and state, of sequences of five steps."""
    output, h = compare(nn.GRU(10, 20), torch.randn(5, 2, 10))
    assert output.shape == (5, 2, 20) and h.shape == (1, 2, 20)


@pytest.mark.behaviour("rnn", "a plain RNN has the CPU's values")
def test_rnn(npu: Any) -> None:
    """Output and state, of sequences of five steps."""
    output, h = compare(nn.RNN(10, 20), torch.randn(5, 2, 10))
    assert output.shape == (5, 2, 20) and h.shape == (1, 2, 20)


# --- Attention ---------------------------------------------------------------


def operands(dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    """Query, key, value, and a mask that is added."""
    return [*(torch.rand(2, 2, 8, 16, dtype=dtype) for _ in range(3)),
            torch.rand(2, 2, 8, 8, dtype=dtype)]


@pytest.mark.behaviour("sdpa", "attention has the CPU's values")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_attention(npu: Any, dtype: torch.dtype) -> None:
    """Without a mask, with a mask, and causal."""
    q, k, v, mask = operands(dtype)
    tolerance = 1e-5 if dtype == torch.float32 else 2e-3
    for options in ({}, {"attn_mask": mask}, {"is_causal": True}):
        there = {n: o.npu() if isinstance(o, torch.Tensor) else o
                 for n, o in options.items()}
        same(F.scaled_dot_product_attention(q.npu(), k.npu(), v.npu(),
                                            **there),
             F.scaled_dot_product_attention(q, k, v, **options), tolerance)


@pytest.mark.behaviour("sdpa", "attention drops weights")
def test_attention_with_dropout(npu: Any) -> None:
    """Dropout changes the result, keeps its shape, and repeats by a seed."""
    q, k, v, _ = (t.npu() for t in operands())
    results = []
    for probability in (0.0, 0.1, 0.1):
        torch.manual_seed(5)
        results.append(F.scaled_dot_product_attention(
            q, k, v, dropout_p=probability))
    assert results[0].shape == (2, 2, 8, 16)
    same(results[2], results[1].cpu())
    assert not torch.allclose(results[0].cpu(), results[1].cpu())


@pytest.mark.behaviour("sdpa", "attention has the CPU's gradients")
def test_attention_backward(npu: Any) -> None:
    """Gradients of query, key, value and mask."""
    here = [t.requires_grad_() for t in operands()]
    there = [t.detach().npu().requires_grad_() for t in here]
    for tensors in (here, there):
        F.scaled_dot_product_attention(*tensors).sum().backward()
    for a, b in zip(there, here, strict=True):
        assert a.grad is not None and b.grad is not None
        same(a.grad, b.grad, 1e-5)


@pytest.mark.behaviour("sdpa", "PyTorch chooses the device's attention")
@pytest.mark.xfail(
    strict=True, raises=AssertionError,
    reason="PyTorch: at::native::_fused_sdp_choice_stub, a DispatchStub, "
           "takes kernels from C++ alone; PyTorch composes attention of "
           "other operators")
@pytest.mark.parametrize("has_mask", [False, True])
def test_choice(npu: Any, has_mask: bool) -> None:
    """_fused_sdp_choice names the kernel that a backend gives."""
    *tensors, mask = (t.npu() for t in operands())
    choice = torch._fused_sdp_choice(
        *tensors, attn_mask=mask if has_mask else None)
    assert choice == SDPBackend.OVERRIDEABLE.value
    npu.fallbacks.clear()
    F.scaled_dot_product_attention(*tensors)
    assert "aten._softmax.out" not in npu.stats()["fallbacks"]


def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, bias: torch.Tensor
) -> torch.Tensor:
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]) + bias
    return torch.softmax(scores, -1) @ v


@pytest.mark.behaviour("sdpa", "the attention that a backend overrides runs")
def test_fused(npu: Any) -> None:
    """The fused operator gives attention with a bias."""
    here = operands()
    q, k, v, bias = (t.npu() for t in here)
    found = torch.ops.aten._scaled_dot_product_fused_attention_overrideable(
        q, k, v, attn_bias=bias)
    assert len(found) == 9
    same(found[0], attention(*here), 1e-5)


@pytest.mark.behaviour("sdpa", "the overridden attention has a backward")
def test_fused_backward(npu: Any) -> None:
    """Its gradients are those of attention with a bias."""
    here = [t.requires_grad_() for t in operands()]
    q, k, v, bias = (t.detach().npu() for t in here)
    aten = torch.ops.aten
    out, logsumexp, cum_q, cum_k, max_q, max_k, seed, offset, _ = (
        aten._scaled_dot_product_fused_attention_overrideable(
            q, k, v, attn_bias=bias))
    grad = torch.rand(2, 2, 8, 16)
    found = aten._scaled_dot_product_fused_attention_overrideable_backward(
        grad.npu(), q, k, v, bias, [True] * 4, out, logsumexp, cum_q, cum_k,
        max_q, max_k, 0.0, False, seed, offset)
    attention(*here).backward(grad)
    for a, b in zip(found, here, strict=True):
        assert b.grad is not None
        same(a, b.grad, 1e-5)


@pytest.mark.behaviour("sdpa", "the overridden attention has right gradients")
@pytest.mark.parametrize("dropout", [0.0, 0.4])
@pytest.mark.parametrize("is_causal", [False, True])
def test_fused_gradients(npu: Any, dropout: float, is_causal: bool) -> None:
    """By finite differences: a backward drops what its forward dropped."""
    def fused(*tensors: torch.Tensor) -> torch.Tensor:
        torch.manual_seed(3)
        aten = torch.ops.aten
        return aten._scaled_dot_product_fused_attention_overrideable(
            *tensors, dropout_p=dropout, is_causal=is_causal, scale=0.5)[0]

    tensors = [torch.rand(shape, dtype=torch.double).npu().requires_grad_()
               for shape in [(1, 1, 3, 2)] * 3 + [(3, 3)]]
    assert torch.autograd.gradcheck(fused, tensors,
                                    check_undefined_grad=False)
