# SPDX-License-Identifier: Apache-2.0
"""Greedy decoding that stops at the end token: `if` on a tensor in a loop."""
import torch
from torch import nn


class Greedy(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(8, 8)
        self.head = nn.Linear(8, 8)

    def forward(self, token):
        tokens = [token]
        for _ in range(3):
            logits = self.head(self.embed(tokens[-1]))
            tokens.append(logits.argmax(-1))
            if (tokens[-1] == 7).all():
                break
        return torch.stack(tokens)


torch.manual_seed(0)
greedy = torch.compile(Greedy(), backend="eager")
with torch.no_grad():
    for _ in range(3):
        greedy(torch.tensor([1, 2]))
