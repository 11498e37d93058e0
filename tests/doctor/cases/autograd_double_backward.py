# SPDX-License-Identifier: Apache-2.0
"""A gradient penalty through a compiled critic: no double backward."""
import torch
from torch import nn

torch.manual_seed(0)
critic = torch.compile(nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1)), backend="aot_eager")
x = torch.randn(2, 4, requires_grad=True)
score = critic(x).sum()
(grad,) = torch.autograd.grad(score, x, create_graph=True)
grad.square().sum().backward()
