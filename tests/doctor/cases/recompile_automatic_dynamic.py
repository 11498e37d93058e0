# SPDX-License-Identifier: Apache-2.0
"""The batch size changes: one warm-up recompile makes it dynamic, by
design, and every later size runs in that graph. It is reported all the same."""
import torch


@torch.compile(backend="eager")
def normalize(x):
    return x / (x.abs().sum(-1, keepdim=True) + 1)


for batch in (4, 5, 6, 7, 8, 9):
    normalize(torch.ones(batch, 8))
