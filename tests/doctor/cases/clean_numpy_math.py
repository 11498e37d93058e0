# SPDX-License-Identifier: Apache-2.0
"""NumPy functions that Dynamo traces as PyTorch."""
import numpy as np
import torch


@torch.compile(backend="eager")
def distance(a, b):
    return np.sqrt(((a - b) ** 2).sum())


for _ in range(3):
    distance(np.ones(4), np.zeros(4))
