# SPDX-License-Identifier: Apache-2.0
"""NumPy code that Dynamo evaluates while it traces."""
import numpy as np
import torch


@torch.compile(backend="eager")
def smooth(x):
    y = x * 2
    window = np.hanning(4)
    return y * torch.as_tensor(window, dtype=y.dtype)


for _ in range(3):
    smooth(torch.ones(4))
