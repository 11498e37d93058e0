# SPDX-License-Identifier: Apache-2.0
"""A custom autograd function whose backward leaves for NumPy."""
import numpy as np
import torch


class Quantize(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.round()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        scale = np.busday_count("2024-01-01", "2024-01-04")
        return grad * float(scale) * x.abs()


@torch.compile(backend="aot_eager")
def loss(x):
    y = x * 2
    return Quantize.apply(y).sum()


for _ in range(3):
    loss(torch.ones(4, requires_grad=True)).backward()
