# SPDX-License-Identifier: Apache-2.0
"""Boxes above a threshold are kept, class by class, in a loop."""
import torch
from torch import nn


class PostProcess(nn.Module):
    def forward(self, boxes, scores):
        scores = scores.softmax(-1)
        kept = []
        for label in range(2):
            chosen = (scores[:, label] > 0.1).nonzero()
            kept.append(boxes[chosen[:, 0]])
        return torch.cat(kept)


torch.manual_seed(0)
post = torch.compile(PostProcess(), backend="eager")
for _ in range(3):
    post(torch.rand(6, 4), torch.rand(6, 2))
