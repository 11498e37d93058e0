# SPDX-License-Identifier: Apache-2.0
"""A custom operator with a fake kernel, called by the backend as it
should be."""
import torch


@torch.library.custom_op("doctor_clean::scale", mutates_args=())
def scale(x: torch.Tensor, factor: float) -> torch.Tensor:
    return x * factor


@scale.register_fake
def _(x, factor):
    return torch.empty_like(x)


@torch.compile(backend="aot_eager")
def layer(x):
    return scale(x, 2.0)


for _ in range(3):
    layer(torch.ones(4))
