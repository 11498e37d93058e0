# SPDX-License-Identifier: Apache-2.0
"""An input whose layout changes from call to call."""
import torch


@torch.compile(backend="eager", dynamic=False)
def affine(x):
    return x * 2 + 1


for layout in (torch.ones(4, 6), torch.ones(6, 4).t(), torch.ones(4, 12)[:, ::2]):
    affine(layout)
