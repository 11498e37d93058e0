# SPDX-License-Identifier: Apache-2.0
"""A mode of one's own that logs operators is active around one step."""
import torch
from torch.utils._python_dispatch import TorchDispatchMode

names = []


class Logging(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        names.append(str(func))
        return func(*args, **(kwargs or {}))


@torch.compile(backend="eager")
def step(x):
    return x.sin() + 1


def traced(x):
    with Logging():
        return step(x)


for _ in range(2):
    step(torch.ones(4))
    traced(torch.ones(4))
