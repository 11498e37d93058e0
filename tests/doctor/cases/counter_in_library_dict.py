# SPDX-License-Identifier: Apache-2.0
"""Values are counted with collections.Counter."""
import collections

import torch


@torch.compile(backend="eager")
def histogram(x):
    y = x * 2
    counts = collections.Counter(y.long().tolist())
    return y / len(counts)


for _ in range(2):
    histogram(torch.tensor([1.0, 2.0, 2.0]))
