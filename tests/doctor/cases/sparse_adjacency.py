# SPDX-License-Identifier: Apache-2.0
"""A graph network with a sparse adjacency matrix."""
import torch
from torch import nn


class GraphConv(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)

    def forward(self, x, edges, count):
        x = self.proj(x)
        values = torch.ones(edges.shape[1])
        adjacency = torch.sparse_coo_tensor(edges, values, (count, count))
        return torch.sparse.mm(adjacency, x).relu()


torch.manual_seed(0)
conv = torch.compile(GraphConv(), backend="eager")
edges = torch.tensor([[0, 1, 2], [1, 2, 0]])
with torch.no_grad():
    for _ in range(3):
        conv(torch.randn(3, 4), edges, 3)
