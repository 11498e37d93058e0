# SPDX-License-Identifier: Apache-2.0
"""An output that the backward needs is changed in place."""
import torch


@torch.compile(backend="aot_eager")
def activate(x):
    return x.exp()


x = torch.ones(4, requires_grad=True)
y = activate(x)
y.add_(1)
y.sum().backward()
