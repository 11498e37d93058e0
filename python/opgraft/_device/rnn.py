# SPDX-License-Identifier: Apache-2.0
"""Cells of LSTM and GRU: torch calls the fused ones on every device but the
CPU, which has no kernel of them. Here they are composed of others, on copies.

Gates lie side by side in the last dim: of an LSTM input, forget, cell, output;
of a GRU reset, update, new. What a backward needs is the workspace.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from . import fallback


def kernels() -> dict[str, Any]:
    """By the operator's name."""
    return {f.__name__: _kernel(f) for f in (
        _thnn_fused_lstm_cell, _thnn_fused_lstm_cell_backward_impl,
        _thnn_fused_gru_cell, _thnn_fused_gru_cell_backward)}


def _kernel(function: Any) -> Any:
    op = getattr(torch.ops.aten, function.__name__).default

    def call(*args: Any) -> Any:
        return fallback.run_by(function, op, *args)

    return call


def _biased(gates: Tensor, bias: Tensor | None) -> Tensor:
    return gates if bias is None else gates + bias


def _sigmoid_grad(grad: Tensor, y: Tensor) -> Tensor:
    return grad * y * (1 - y)


def _tanh_grad(grad: Tensor, y: Tensor) -> Tensor:
    return grad * (1 - y * y)


# --- LSTM --------------------------------------------------------------------


def _thnn_fused_lstm_cell(
    from_input: Tensor, from_hidden: Tensor, cx: Tensor,
    input_bias: Tensor | None = None, hidden_bias: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """hy, cy, and the gates as workspace."""
    gates = (_biased(from_input, input_bias)
             + _biased(from_hidden, hidden_bias)).chunk(4, 1)
    i, f, o = (gates[k].sigmoid() for k in (0, 1, 3))
    g = gates[2].tanh()
    cy = f * cx + i * g
    return o * cy.tanh(), cy, torch.cat([i, f, g, o], 1)


def _thnn_fused_lstm_cell_backward_impl(
    grad_hy: Tensor | None, grad_cy: Tensor | None, cx: Tensor, cy: Tensor,
    workspace: Tensor, has_bias: bool,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Gradients of the gates, of cx, of either bias."""
    i, f, g, o = workspace.chunk(4, 1)
    grad_h = torch.zeros_like(cx) if grad_hy is None else grad_hy
    y = cy.tanh()
    grad_c = _tanh_grad(grad_h * o, y)
    if grad_cy is not None:
        grad_c = grad_c + grad_cy
    grads = torch.cat([
        _sigmoid_grad(grad_c * g, i), _sigmoid_grad(grad_c * cx, f),
        _tanh_grad(grad_c * i, g), _sigmoid_grad(grad_h * y, o)], 1)
    return grads, grad_c * f, grads.sum(0) if has_bias else None


# --- GRU ---------------------------------------------------------------------


def _thnn_fused_gru_cell(
    from_input: Tensor, from_hidden: Tensor, hx: Tensor,
    input_bias: Tensor | None = None, hidden_bias: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """hy, and as workspace the gates, hx, and the hidden part of the new."""
    inputs = _biased(from_input, input_bias).chunk(3, 1)
    hidden = _biased(from_hidden, hidden_bias).chunk(3, 1)
    r, z = ((inputs[k] + hidden[k]).sigmoid() for k in (0, 1))
    n = (inputs[2] + r * hidden[2]).tanh()
    return n + z * (hx - n), torch.cat([r, z, n, hx, hidden[2]], 1)


def _thnn_fused_gru_cell_backward(
    grad: Tensor, workspace: Tensor, has_bias: bool,
) -> tuple[Tensor | None, ...]:
    """Gradients of both parts of the gates, of hx, of both biases."""
    r, z, n, hx, hidden = workspace.chunk(5, 1)
    grad_n = _tanh_grad(grad * (1 - z), n)
    grad_z = _sigmoid_grad(grad * (hx - n), z)
    grad_r = _sigmoid_grad(grad_n * hidden, r)
    inputs = torch.cat([grad_r, grad_z, grad_n], 1)
    hiddens = torch.cat([grad_r, grad_z, grad_n * r], 1)
    if not has_bias:
        return inputs, hiddens, grad * z, None, None
    return inputs, hiddens, grad * z, inputs.sum(0), hiddens.sum(0)
