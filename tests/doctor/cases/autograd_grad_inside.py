# SPDX-License-Identifier: Apache-2.0
"""A saliency map: the critic is differentiated inside the region."""
import torch
from torch import nn

torch.manual_seed(0)
critic = nn.Linear(4, 1)


@torch.compile(backend="aot_eager")
def saliency(x):
    score = critic(x.sin()).sum()
    (grad,) = torch.autograd.grad(score, x)
    return grad.abs() * 2


for _ in range(3):
    saliency(torch.randn(2, 4, requires_grad=True))
