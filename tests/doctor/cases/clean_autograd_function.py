# SPDX-License-Identifier: Apache-2.0
"""A custom autograd function written in tensor operations."""
import torch


class Clamp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.clamp(-1, 1)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * (x.abs() <= 1)


@torch.compile(backend="aot_eager")
def loss(x):
    return Clamp.apply(x * 2).sum()


for _ in range(3):
    loss(torch.ones(4, requires_grad=True)).backward()
