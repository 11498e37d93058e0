# SPDX-License-Identifier: Apache-2.0
"""A deprecation warning on the hot path."""
import warnings

import torch


@torch.compile(backend="eager")
def legacy(x):
    warnings.warn("legacy() is deprecated", DeprecationWarning, stacklevel=2)
    return x + 1


with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    for _ in range(3):
        legacy(torch.ones(4))
