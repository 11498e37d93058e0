# SPDX-License-Identifier: Apache-2.0
"""An attention mask is cut to the longest sequence, read from a tensor."""
import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(16, 8)
        self.out = nn.Linear(8, 8)

    def forward(self, tokens, lengths):
        hidden = self.embed(tokens)
        longest = int(lengths.max())
        steps = torch.arange(longest)
        mask = steps[None, :] < lengths[:, None]
        return self.out(hidden[:, :longest]) * mask[..., None]


torch.manual_seed(0)
encoder = torch.compile(Encoder(), backend="aot_eager")
tokens = torch.randint(0, 16, (2, 6))
for _ in range(3):
    encoder(tokens, torch.tensor([4, 3]))
