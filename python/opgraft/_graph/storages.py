# SPDX-License-Identifier: Apache-2.0
"""What C reads of torch's storages, and inputs that share one."""

from __future__ import annotations

import functools
from typing import Any, Callable

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


def at_their_places(call: Callable[..., Any], inputs: list[Any]
                    ) -> Callable[..., Any]:
    """`call`, refused where inputs that shared memory when it was compiled lie
    elsewhere in it, or apart. Of inputs that overlap and are written
    AOTAutograd makes one tensor, and views of it at the places that they had,
    which nothing of torch guards where they are static."""
    sharing: dict[int, list[int]] = {}
    for i, x in enumerate(inputs):
        if isinstance(x, torch.Tensor) and torch._C._has_storage(x):
            sharing.setdefault(x.untyped_storage()._cdata, []).append(i)
    places = [(i, group[0], inputs[i].storage_offset())
              for group in sharing.values() if len(group) > 1 for i in group]

    def checked(*args: Any) -> Any:
        for i, other, offset in places:
            x, beside = args[i], args[other]
            found = x.storage_offset()
            if (isinstance(offset, int) and found != offset
                    or x.untyped_storage()._cdata
                    != beside.untyped_storage()._cdata):
                raise RuntimeError(
                    f"input {i} of a compiled graph begins at element {found} "
                    f"of its memory, expected {offset} of that of input "
                    f"{other}, as when it was compiled: inputs that share "
                    "memory are written; clone() them before the call")
        return call(*args)

    return checked
