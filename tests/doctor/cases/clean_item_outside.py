# SPDX-License-Identifier: Apache-2.0
"""`.item()` stands outside of the compiled function."""
import torch


@torch.compile(backend="aot_eager")
def loss_of(x):
    return x.square().mean()


total = 0.0
for i in range(3):
    total += loss_of(torch.full((4,), float(i))).item()
