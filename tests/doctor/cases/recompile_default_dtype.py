# SPDX-License-Identifier: Apache-2.0
"""The default type is changed between calls."""
import torch


@torch.compile(backend="eager")
def grid(x):
    return x + torch.linspace(0, 1, 4)


grid(torch.ones(4))
torch.set_default_dtype(torch.float64)
grid(torch.ones(4))
torch.set_default_dtype(torch.float32)
