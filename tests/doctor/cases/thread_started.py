# SPDX-License-Identifier: Apache-2.0
"""A thread that reports is started in the compiled function."""
import threading

import torch


@torch.compile(backend="eager")
def step(x):
    y = x * 2
    threading.Thread(target=len, args=("report",)).start()
    return y + 1


for _ in range(2):
    step(torch.ones(4))
