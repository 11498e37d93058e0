# SPDX-License-Identifier: Apache-2.0
"""A global setting that changes between calls."""
import torch

SETTINGS = {"temperature": 1}


@torch.compile(backend="eager", dynamic=False)
def sample(logits):
    scaled = logits / SETTINGS["temperature"]
    return scaled.softmax(-1)


for temperature in (1, 2, 3):
    SETTINGS["temperature"] = temperature
    sample(torch.ones(4))
