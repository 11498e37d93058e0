# SPDX-License-Identifier: Apache-2.0
"""The calls in ONNX Runtime: a model of one node for each."""

from __future__ import annotations

import ctypes
import functools
import pathlib
from typing import Any

import cases
import hosting
import ml_dtypes
import numpy as np
import onnxruntime
from onnx import TensorProto, helper

import opgraft.onnx
from opgraft._base.dtypes import host_name

load = functools.cache(opgraft.onnx.load)
ONNX = {"float32": TensorProto.FLOAT, "float64": TensorProto.DOUBLE,
        "float16": TensorProto.FLOAT16, "bfloat16": TensorProto.BFLOAT16,
        "int8": TensorProto.INT8, "int16": TensorProto.INT16,
        "int32": TensorProto.INT32, "int64": TensorProto.INT64,
        "uint8": TensorProto.UINT8, "bool": TensorProto.BOOL}
TYPES = {f"tensor({'float' if n == 'float32' else 'double' if n == 'float64' else n})":
         np.dtype(ml_dtypes.bfloat16 if n == "bfloat16" else n) for n in ONNX}


def split(description: Any, case: cases.Case) -> tuple[list[Any], dict[str, Any]]:
    """Tensors in order, None for an absent one, and the other arguments."""
    tensors: list[Any] = []
    attributes = dict(case.kwargs)
    for param, value in zip(description.params, case.args):
        if param["attr"] is not None:
            attributes[param["name"]] = value
        elif isinstance(value, list):
            tensors += value
        else:
            tensors.append(value)
    return tensors, attributes


# 1.16 lacks it, and cannot be fed bfloat16: such inputs are constants there.
HAS_TYPES = hasattr(onnxruntime.OrtValue, "ortvalue_from_numpy_with_onnx_type")


def is_constant(value: Any) -> bool:
    return not HAS_TYPES and value.dtype == ml_dtypes.bfloat16


def held(value: Any) -> Any:
    if not HAS_TYPES:
        return onnxruntime.OrtValue.ortvalue_from_numpy(value.copy(order="C"))
    view = value.view(np.uint16) if value.dtype == ml_dtypes.bfloat16 else value
    return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(
        view.copy(order="C"), ONNX[value.dtype.name])


def read(value: Any) -> Any:
    """A result's bytes, which numpy() gives for types that NumPy has."""
    dtype, shape = TYPES[value.data_type()], tuple(value.shape())
    size = int(np.prod(shape)) * dtype.itemsize
    raw = ctypes.string_at(value.data_ptr(), size) if size else b""
    return np.frombuffer(raw, dtype).reshape(shape)


def output_type(description: Any, index: int, tensors: list[Any]) -> int | None:
    """Of a node's output; None where the rule is neither a type nor that of a
    tensor. 1.16 infers no types where inputs are optional or a list."""
    kinds = description.tables["out_types"]
    if index >= len(description.fresh):
        param = description.mutated[index - len(description.fresh)]
        return ONNX[tensors[description.params[param]["tensor"]].dtype.name]
    if kinds[index]["kind"] == "fixed":
        return ONNX[host_name(kinds[index]["dtype"])]
    if kinds[index]["kind"] != "same":
        return None
    return ONNX[tensors[kinds[index]["tensor"]].dtype.name]


def output(name: str, kind: int | None) -> Any:
    return (helper.make_empty_tensor_value_info(name) if kind is None
            else helper.make_tensor_value_info(name, kind, None))


def call(path: pathlib.Path, case: cases.Case) -> list[Any]:
    module = load(path)
    if case.op in module.missing:
        raise hosting.Missing(module.missing[case.op])
    description = module.descriptions[case.op]
    tensors, attributes = split(description, case)
    names = ["" if t is None else f"in{i}" for i, t in enumerate(tensors)]
    outs = [f"out{i}" for i in range(
        len(description.fresh) + len(description.mutated))]
    try:
        node = module.node(case.op, names, outs, **attributes)
    except ValueError as error:
        raise hosting.Missing(str(error)) from None
    graph = helper.make_graph(
        [node], "one",
        [helper.make_tensor_value_info(n, ONNX[t.dtype.name], t.shape)
         for n, t in zip(names, tensors)
         if t is not None and not is_constant(t)],
        [output(n, output_type(description, i, tensors))
         for i, n in enumerate(outs)],
        [helper.make_tensor(n, ONNX[t.dtype.name], t.shape, t.tobytes(), raw=True)
         for n, t in zip(names, tensors) if t is not None and is_constant(t)])
    model = helper.make_model(graph, ir_version=8, opset_imports=[
        helper.make_opsetid("", 18), module.opset()])
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = module.session(model, options)
    feeds = {n: held(t) for n, t in zip(names, tensors)
             if t is not None and not is_constant(t)}
    return [read(v) for v in session.run_with_ort_values(outs, feeds)]


if __name__ == "__main__":
    hosting.main(call)
