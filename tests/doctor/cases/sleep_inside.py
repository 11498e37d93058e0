# SPDX-License-Identifier: Apache-2.0
"""A pause stands in the compiled function."""
import time

import torch


@torch.compile(backend="eager")
def polite(x):
    y = x.sin()
    time.sleep(0.001)
    return y.cos()


for _ in range(2):
    polite(torch.ones(4))
