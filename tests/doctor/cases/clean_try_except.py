# SPDX-License-Identifier: Apache-2.0
"""A handled exception on the path of Python alone."""
import torch

TABLE = {"relu": torch.relu}


@torch.compile(backend="eager")
def activate(x):
    try:
        function = TABLE["swish"]
    except KeyError:
        function = TABLE["relu"]
    return function(x - 1)


for _ in range(3):
    activate(torch.ones(4))
