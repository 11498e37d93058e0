# SPDX-License-Identifier: Apache-2.0
"""A mode given as a string: one graph for each."""
import torch


@torch.compile(backend="eager")
def activate(x, kind):
    y = x + 1
    if kind == "relu":
        return y.relu()
    if kind == "tanh":
        return y.tanh()
    return y.sigmoid()


for kind in ("relu", "tanh", "sigmoid", "relu"):
    activate(torch.ones(4), kind)
