# SPDX-License-Identifier: Apache-2.0
"""A recurrent encoder before a compiled head."""
import torch
from torch import nn


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(4, 4, batch_first=True)
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        hidden, _ = self.rnn(x + 1)
        return self.head(hidden)


torch.manual_seed(0)
tagger = torch.compile(Tagger(), backend="aot_eager")
with torch.no_grad():
    for _ in range(3):
        tagger(torch.randn(2, 5, 4))
