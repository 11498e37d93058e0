# SPDX-License-Identifier: Apache-2.0
"""Foreground anchors picked with a boolean mask in a detection loss."""
import torch
from torch import nn


class DetectionLoss(nn.Module):
    def forward(self, logits, labels):
        foreground = labels > 0
        picked = logits[foreground]
        return picked.sigmoid().log().mean() + logits.square().mean()


torch.manual_seed(0)
criterion = torch.compile(DetectionLoss(), backend="aot_eager")
labels = torch.tensor([0, 1, 1, 0, 2])
for _ in range(3):
    criterion(torch.randn(5, 3), labels)
