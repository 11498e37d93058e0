# SPDX-License-Identifier: Apache-2.0
"""The calls in TVM-FFI, with PyTorch's tensors: NumPy has no bf16 for DLPack."""

from __future__ import annotations

import functools
import json
import pathlib
from typing import Any

import cases
import hosting
import torch
import tvm_ffi
from torch_arrays import TYPES, array, tensor

from opgraft._base.tables import Description

load = functools.cache(tvm_ffi.load_module)


@functools.cache
def found(path: str, op: str) -> tuple[Any, Description]:
    module = load(path)
    function = module.get_function(op)
    # As get_function_metadata does in newer releases.
    tables = json.loads(module.get_function(f"_metadata_{op}")())["opgraft"]
    return function, Description(json.dumps(tables))


def held(param: dict[str, Any], value: Any) -> Any:
    if isinstance(value, dict) and "dtype" in value:  # a default
        value = value["dtype"]
    if param["type"] == "ScalarType" and value is not None:
        return TYPES[value]
    return value


def leaves(value: Any) -> list[Any]:
    if value is None:
        return []
    if isinstance(value, tvm_ffi.Array):
        return [leaf for entry in value for leaf in leaves(entry)]
    return [value if isinstance(value, torch.Tensor)
            else torch.from_dlpack(value)]


def call(path: pathlib.Path, case: cases.Case) -> list[Any]:
    try:
        function, description = found(str(path), case.op)
    except AttributeError as error:
        raise hosting.Missing(str(error)) from None
    values = description.bind(tuple(tensor(a) for a in case.args), case.kwargs)
    args = [held(p, v) for p, v in zip(description.params, values)]
    fresh = leaves(function(*args))
    return [array(t) for t in fresh + [args[i] for i in case.written]]


if __name__ == "__main__":
    hosting.main(call)
