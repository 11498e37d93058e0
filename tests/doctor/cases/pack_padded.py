# SPDX-License-Identifier: Apache-2.0
"""Packed sequences in a recurrent text classifier."""
import torch
from torch import nn


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(8, 4)
        self.head = nn.Linear(4, 2)

    def forward(self, tokens, lengths):
        x = self.embed(tokens)
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True)
        return self.head(packed.data)


torch.manual_seed(0)
model = torch.compile(Classifier(), backend="eager")
with torch.no_grad():
    for _ in range(3):
        model(torch.ones(2, 4, dtype=torch.long), torch.tensor([4, 2]))
