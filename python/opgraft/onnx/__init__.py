# SPDX-License-Identifier: Apache-2.0
"""Operators of a module in ONNX models, run by ONNX Runtime.

    m = opgraft.onnx.load("scale.so")   # opgraft build scale.c --hosts onnxruntime
    node = m.node("scale", ["x", "weight"], ["y"])          # for onnx.helper
    y, = m.session("model.onnx").run(None, {"x": x, "weight": weight})

Inputs are the tensor arguments in order ("" for an absent optional), outputs
the fresh results and then the new value of each argument that is written.
Without Python: SessionOptions.register_custom_ops_library of any binding.
"""

from __future__ import annotations

import os
from typing import Any, Sequence

from .._base.dtypes import declared_dtype
from .._base.shared import SharedObject, unchanged
from .._base.tables import Description

__all__ = ["Module", "load"]

VERSION = 1  # of the domain


class Module:
    """A file with the ONNX Runtime adapter (hosts/onnxruntime).

    ValueError for an operator or attribute that the file does not offer.

        >>> m = opgraft.onnx.load("softcap.so")
        >>> node = m.node("softcap", ["x"], ["y"], cap=30.0)
        >>> x, y = (onnx.helper.make_tensor_value_info(
        ...     name, onnx.TensorProto.FLOAT, [3]) for name in "xy")
        >>> model = onnx.helper.make_model(
        ...     onnx.helper.make_graph([node], "g", [x], [y]), ir_version=9,
        ...     opset_imports=[m.opset(), onnx.helper.make_opsetid("", 18)])
        >>> m.lint(model)
        []
        >>> m.session(model).run(None, {"x": np.array([-100, 0, 100], np.float32)})
        [array([-29.92..., 0. , 29.92...], dtype=float32)]
        >>> options = m.register(onnxruntime.SessionOptions())
        >>> opgraft.load("softcap.so")  # for the operators of PyTorch
        <opgraft module softcap, 2 functions: softcap, softcap_backward>
        >>> len(m.translations())
        2
    """

    def __init__(self, path: str) -> None:
        self.path = path
        file = SharedObject(path, path, "onnxruntime", "ONNX Runtime")
        self.domain = file.name
        self.descriptions: dict[str, Description] = {}
        self.missing: dict[str, str] = {}
        """Operators that are not offered, and why."""
        for i in range(file.count):
            d = Description(file.describe(i))
            limit = file.limit(i)
            if limit is None:
                self.descriptions[d.name] = d
            else:
                self.missing[d.name] = limit

    def __repr__(self) -> str:
        return f"<opgraft.onnx module {self.domain} of {self.path}>"

    def node(self, op: str, inputs: Sequence[str], outputs: Sequence[str],
             name: str = "", **attributes: Any) -> Any:
        """An onnx.NodeProto: `attributes` are the arguments that are not
        tensors, as PyTorch takes them; those left out have their defaults."""
        from onnx import helper

        if op not in self.descriptions:
            why = self.missing.get(op)
            raise ValueError(
                f"{op} is not offered in ONNX Runtime: {why}" if why else
                f"module {self.domain} has no operator {op!r}; it has "
                f"{', '.join(self.descriptions)}")
        d = self.descriptions[op]
        given = {key: _attribute(d, key, value)
                 for key, value in attributes.items()
                 if value is not None or not _has_none(d, key)}
        node = helper.make_node(op, list(inputs), list(outputs), name=name,
                                domain=self.domain)
        node.attribute.extend(helper.make_attribute(key, value)
                              for key, value in given.items()
                              if value != [])
        node.attribute.extend(_empty(d, key) for key, value in given.items()
                              if value == [])
        return node

    def opset(self) -> Any:
        """For onnx.helper.make_model(opset_imports=[...])."""
        from onnx import helper

        return helper.make_opsetid(self.domain, VERSION)

    def translations(self) -> dict[Any, Any]:
        """For torch.onnx.export(custom_translation_table=...) of a model that
        calls the operators of the same file, loaded by opgraft.load. An
        operator that writes its arguments is exported by its functional form,
        `f_functional`."""
        from ._translate import table

        return table(self)

    def lint(self, model: Any) -> list[str]:
        """What ONNX Runtime would say of a model at the run, or never, a
        sentence for each finding: `model` is a path, bytes or an
        onnx.ModelProto. ValueError where it cannot be read, OSError where the
        file cannot."""
        from ._lint import lint

        return lint(self, model)

    def register(self, options: Any) -> Any:
        """Adds the operators to an onnxruntime.SessionOptions, and returns
        it."""
        options.register_custom_ops_library(self.path)
        return options

    def session(self, model: Any, options: Any = None,
                providers: Sequence[str] = ("CPUExecutionProvider",)) -> Any:
        """An onnxruntime.InferenceSession with the operators: `model` is a
        path, bytes or an onnx.ModelProto."""
        import onnxruntime

        if options is None:
            options = onnxruntime.SessionOptions()
        if hasattr(model, "SerializeToString"):
            model = model.SerializeToString()
        return onnxruntime.InferenceSession(
            model, self.register(options), providers=list(providers))


def _parameter(d: Description, name: str) -> dict[str, Any]:
    index = d.by_name.get(name)
    if index is None or d.params[index]["attr"] is None:
        known = [p["name"] for p in d.params if p["attr"] is not None]
        raise ValueError(f"{d.name}: has no attribute {name!r}; it has "
                         f"{', '.join(known) or 'none'}")
    return d.params[index]


def _has_none(d: Description, name: str) -> bool:
    """Whether a node without the attribute stands for None."""
    param = _parameter(d, name)
    if param["optional"] and d.defaults[d.by_name[name]] is None:
        return True
    raise ValueError(f"{d.name}: {name}: ONNX has no None, and without the "
                     "attribute its default stands")


def _attribute(d: Description, name: str, value: Any) -> Any:
    """ONNX has 64-bit ints, 32-bit floats, texts, and lists of numbers."""
    param = _parameter(d, name)
    kind = param["type"]
    if param["list"]:
        convert: Any = float if kind == "float" else int
        return [convert(v) for v in value]
    if kind in ("int", "SymInt", "bool"):
        return int(value)
    if kind == "float":
        return float(value)
    if kind == "Scalar":
        if isinstance(value, (bool, complex)):
            raise ValueError(f"{d.name}: {name}: ONNX has no "
                             f"{type(value).__name__} attribute")
        return value if isinstance(value, float) else int(value)
    if kind == "Device":
        raise ValueError(f"{d.name}: {name}: ONNX Runtime chooses the device")
    if kind == "ScalarType":
        try:
            return declared_dtype(value)
        except TypeError as error:
            raise ValueError(f"{d.name}: {name}: {error}") from None
    return str(value)


def _empty(d: Description, name: str) -> Any:
    from onnx import AttributeProto

    is_float = _parameter(d, name)["type"] == "float"
    return AttributeProto(
        name=name,
        type=AttributeProto.FLOATS if is_float else AttributeProto.INTS)


def load(path: str | os.PathLike[str]) -> Module:
    """The operators of a shared object that was built with
    `--hosts onnxruntime`. ONNX Runtime opens the path itself, and the system
    gives a process the first object of a path for good: ImportError where the
    file has changed since.

        >>> m = opgraft.onnx.load("softcap.so")
        >>> m
        <opgraft.onnx module softcap of ...softcap.so>
    """
    place = unchanged(path)
    return Module(place)
