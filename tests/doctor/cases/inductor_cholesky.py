# SPDX-License-Identifier: Apache-2.0
"""A Cholesky factor: Inductor calls the library."""
import torch


@torch.compile
def factor(x):
    gram = x * 2 + torch.eye(4)
    return torch.linalg.cholesky(gram).sin()


for _ in range(2):
    factor(torch.eye(4))
