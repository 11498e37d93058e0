# SPDX-License-Identifier: Apache-2.0
"""Batches that carry different optional fields."""
import torch


@torch.compile(backend="eager")
def collate(batch):
    total = batch["image"].sum()
    if "mask" in batch:
        total = total + batch["mask"].sum()
    return total


image, mask = torch.ones(4), torch.ones(4)
for batch in ({"image": image}, {"image": image, "mask": mask}):
    collate(batch)
