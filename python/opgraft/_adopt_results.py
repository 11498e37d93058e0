# SPDX-License-Identifier: Apache-2.0
"""What adopted callables return beside tensors: numbers, arrays, None."""

from __future__ import annotations

import sys
from typing import Any

import torch


def tensor_from(
    found: Any, dtype: torch.dtype | None, shape: tuple[int, ...],
    is_gradient: bool,
) -> Any:
    """A tensor of its own memory; `found` itself where it is something else,
    which is then an error."""
    if found is None and is_gradient:
        return torch.zeros(shape, dtype=dtype)
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(found, numpy.generic):
        found = numpy.asarray(found)
    if numpy is not None and isinstance(found, numpy.ndarray):
        # A copy: who else holds the array's memory is not known.
        return torch.from_numpy(numpy.array(found, order="C"))
    if isinstance(found, (bool, int, float, complex)):
        return _number(found, dtype)
    if hasattr(found, "__dlpack__") and not isinstance(found, torch.Tensor):
        return torch.from_dlpack(found).clone()
    return found


def _number(found: Any, dtype: torch.dtype | None) -> torch.Tensor:
    """In the declared type where that holds numbers of this kind: an int is
    also a float, a float no int."""
    own = torch.tensor(found, dtype=torch.int64 if type(found) is int else None)
    fits = dtype is not None and (
        own.dtype is dtype or own.dtype.is_complex and dtype.is_complex
        or type(found) is float and (dtype.is_floating_point or dtype.is_complex)
        or type(found) is int and dtype is not torch.bool)
    return torch.tensor(found, dtype=dtype) if fits else own
