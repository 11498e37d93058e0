# SPDX-License-Identifier: Apache-2.0
"""The calls in PyTorch, which the others are compared with."""

from __future__ import annotations

import functools
import pathlib
from typing import Any

import cases
import hosting
import ml_dtypes
import numpy as np
import torch

import opgraft

TYPES = {"bf16": torch.bfloat16, "f32": torch.float32}
load = functools.cache(opgraft.load)


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


def call(path: pathlib.Path, case: cases.Case) -> list[Any]:
    args = [tensor(a) for a in case.args]
    if case.op == "digest":  # PyTorch's own types
        args = [TYPES.get(a, a) if i == 5 else a for i, a in enumerate(args)]
    out = getattr(load(path), case.op)(*args, **case.kwargs)
    fresh = [] if out is None else [out] if not isinstance(
        out, (list, tuple)) else list(out)
    written = [args[i] for i in case.written]
    fresh = [t for t in fresh if not any(t is w for w in written)]
    return [array(t) for t in fresh + written]


if __name__ == "__main__":
    hosting.main(call)
