# SPDX-License-Identifier: Apache-2.0
"""The script ends with an exception after a break has been met."""
import torch


@torch.compile(backend="eager")
def f(x):
    y = x * 2
    total = y.sum().item()
    return y / total


f(torch.ones(4))
raise RuntimeError("the data ran out")
