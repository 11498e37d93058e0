# SPDX-License-Identifier: Apache-2.0
"""torch.onnx.export of models with operators of a module: what each becomes.
Imports PyTorch and onnxscript when it is asked."""

from __future__ import annotations

from typing import Any, Callable

from .._base.tables import Description

Module = Any  # opgraft.onnx.Module, whose file imports this one
Translation = Callable[..., Any]


def table(module: Module) -> dict[Any, Translation]:
    """For torch.onnx.export(custom_translation_table=...): a function for each
    operator that is offered, and for the functional form of one that writes.
    ValueError where PyTorch has not loaded the module."""
    import torch

    space = getattr(torch.ops, module.domain)
    found: dict[Any, Translation] = {}
    for d in module.descriptions.values():
        names = [d.base_name]
        if d.mutated:
            names.append(d.base_name + ("functional" if
                         d.base_name.endswith("_") else "_functional"))
        for name in names:
            if hasattr(space, name):
                overload = getattr(getattr(space, name),
                                   d.overload or "default")
                found[overload] = _translation(module, d)
    if module.descriptions and not found:
        raise ValueError(
            f"{module.path}: PyTorch has no operators of {module.domain}; load "
            "the file with opgraft.load as well")
    return found


def _translation(module: Module, d: Description) -> Translation:
    def translate(*args: Any, **kwargs: Any) -> Any:
        return _node(module, d, d.bind(args, kwargs))

    translate.__name__ = d.base_name
    return translate


def _node(module: Module, d: Description, values: list[Any]) -> Any:
    """Adds the operator's node to the graph that the exporter records, and
    returns its outputs."""
    import onnx_ir as ir
    from onnxscript import evaluator

    inputs: list[Any] = []
    attributes: dict[str, Any] = {}
    for param, value in zip(d.params, values):
        if param["attr"] is None:
            inputs += value if param["list"] else [value]
            continue
        if isinstance(value, ir.Value):
            raise ValueError(
                f"{d.name}: {param['name']} is computed by the model; in ONNX "
                "it is an attribute, which has one value")
        attributes[param["name"]] = _plain(param, value)
    while inputs and inputs[-1] is None:
        inputs.pop()
    proto = module.node(d.name, [], [], **attributes)
    node = ir.Node(
        module.domain, d.name, inputs,
        [ir.serde.deserialize_attribute(a) for a in proto.attribute],
        num_outputs=len(d.fresh) + len(d.mutated))
    recorder: Any = evaluator.default()
    recorder.nodes.append(node)
    return node.outputs[0] if len(node.outputs) == 1 else node.outputs


def _plain(param: dict[str, Any], value: Any) -> Any:
    """The exporter has types as ONNX's numbers."""
    if param["type"] != "ScalarType" or value is None:
        return value
    import onnx_ir as ir

    return ir.DataType(value).numpy()
