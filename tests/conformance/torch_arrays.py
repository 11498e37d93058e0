# SPDX-License-Identifier: Apache-2.0
"""NumPy's arrays as PyTorch's tensors, and back, in the types that NumPy
lacks too."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import torch

TYPES = {"bf16": torch.bfloat16, "f32": torch.float32}  # of cases


def tensor(value: Any) -> Any:
    if isinstance(value, list):
        return [tensor(v) for v in value]
    if not isinstance(value, np.ndarray):
        return value
    if value.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(value.view(np.int16).copy()).view(torch.bfloat16)
    return torch.from_numpy(value.copy())


def array(value: torch.Tensor) -> Any:
    if value.dtype == torch.bfloat16:
        return value.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return value.numpy()
