# SPDX-License-Identifier: Apache-2.0
"""The calls in PyTorch, which the others are compared with."""

from __future__ import annotations

import functools
import pathlib
from typing import Any

import cases
import hosting
from torch_arrays import TYPES, array, tensor

import opgraft

load = functools.cache(opgraft.load)


def call_with(function: Any, values: list[Any], written: tuple[int, ...],
              **kwargs: Any) -> list[Any]:
    args = [tensor(a) for a in values]
    out = function(*args, **kwargs)
    fresh = [] if out is None else [out] if not isinstance(
        out, (list, tuple)) else list(out)
    new = [args[i] for i in written]
    fresh = [t for t in fresh if not any(t is w for w in new)]
    return [array(t) for t in fresh + new]


def call(path: pathlib.Path, case: cases.Case) -> list[Any]:
    args = list(case.args)
    if case.op == "digest":  # PyTorch's own types
        args = [TYPES.get(a, a) if i == 5 else a for i, a in enumerate(args)]
    function = getattr(load(path), case.op.replace(".", "_"))
    return call_with(function, args, case.written, **case.kwargs)


if __name__ == "__main__":
    hosting.main(call)
