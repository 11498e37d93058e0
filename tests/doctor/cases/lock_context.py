# SPDX-License-Identifier: Apache-2.0
"""A lock around a shared statistic."""
import threading

import torch

lock = threading.Lock()
seen = {"calls": 0}


@torch.compile(backend="eager")
def update(x):
    y = x * 2
    with lock:
        seen["calls"] += 1
    return y + 1


for _ in range(3):
    update(torch.ones(4))
