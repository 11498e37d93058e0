# SPDX-License-Identifier: Apache-2.0
"""A mask is applied with torch.where, not with indexing."""
import torch


@torch.compile(backend="eager")
def masked_mean(x, mask):
    kept = torch.where(mask, x, torch.zeros_like(x))
    return kept.sum() / mask.sum().clamp(min=1)


for _ in range(3):
    masked_mean(torch.arange(6.0), torch.arange(6) > 2)
