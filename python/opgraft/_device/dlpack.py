# SPDX-License-Identifier: Apache-2.0
"""DLPack of tensors of the device: torch knows its type by another name."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch.overrides import has_torch_function_unary

from . import state


def register() -> None:
    # It compares the type with privateuse1, not with the device's name.
    torch.Tensor.__dlpack_device__ = _knowing(torch.Tensor.__dlpack_device__)


def _knowing(original: Any) -> Any:
    from torch.utils.dlpack import DLDeviceType

    @functools.wraps(original)
    def __dlpack_device__(self: Any) -> Any:
        if has_torch_function_unary(self) or \
                self.device.type != state.current().name:
            return original(self)
        return DLDeviceType.kDLExtDev, self.device.index or 0

    return __dlpack_device__
