# SPDX-License-Identifier: Apache-2.0
"""Decoding with a list of keys that grows by a tensor for each token."""
import torch


@torch.compile(backend="eager")
def attend(query, keys):
    scores = torch.stack([query @ key for key in keys])
    return scores.softmax(0)


query, keys = torch.ones(4), []
for _ in range(5):
    keys.append(torch.ones(4))
    attend(query, keys)
