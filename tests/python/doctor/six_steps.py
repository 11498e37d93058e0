# SPDX-License-Identifier: Apache-2.0
"""Six steps of a model that counts them, prints, reads a number, and gets a
larger batch each time; the tests find the lines by their comments."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(256, 256)
        self.second = nn.Linear(256, 256)
        self.n = 0

    def forward(self, x):
        self.n += 1  # root: counter
        x = self.first(x).relu()
        scale = x.mean().item()  # root: item
        print("a step")  # root: print
        x = self.second(x * scale)
        return x * self.n


if __name__ == "__main__":
    torch.manual_seed(0)
    model = torch.compile(Model())
    with torch.no_grad():
        for step in range(6):
            model(torch.randn(64 + 8 * step, 256))
