# SPDX-License-Identifier: Apache-2.0
"""A custom operator without a gradient is trained through."""
import torch


@torch.library.custom_op("doctor_nograd::scale", mutates_args=())
def scale(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@scale.register_fake
def _(x):
    return torch.empty_like(x)


@torch.compile(backend="aot_eager")
def loss(x):
    return scale(x.sin()).sum()


loss(torch.ones(4, requires_grad=True)).backward()
