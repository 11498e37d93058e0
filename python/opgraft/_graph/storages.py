# SPDX-License-Identifier: Apache-2.0
"""What C reads of torch's storages."""

from __future__ import annotations

import functools
from typing import Callable

import torch

from .. import _C


@functools.cache
def are_read() -> bool:
    """Whether C reads a storage and its count of users as torch has them."""
    from torch.utils._python_dispatch import _disable_current_modes

    count = getattr(torch._C, "_storage_Use_Count", None)
    if count is None:
        return False
    with _disable_current_modes():  # AOTAutograd's would make fake tensors
        return all(_is_read(torch.empty(shape), count)
                   for shape in ((3,), (), (2, 4)))


def _is_read(sample: torch.Tensor, count: Callable[[int], int]) -> bool:
    kept = []
    for shared in range(1, 5):
        address, users = _C.captured_storage(sample)
        if users != shared:
            return False
        kept.append(sample.detach())
    return (count(address) == 5
            and sample.untyped_storage()._cdata == address)
