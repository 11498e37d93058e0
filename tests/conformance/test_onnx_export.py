# SPDX-License-Identifier: Apache-2.0
"""torch.onnx.export of models with operators of a module."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not here")
pytest.importorskip("onnxscript", reason="onnxscript is not here")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is not here")

import opgraft  # noqa: E402
import opgraft.onnx  # noqa: E402


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.weight = torch.nn.Parameter(torch.randn(4))

    def forward(self, x: Any) -> Any:
        y = torch.ops.scale.scale(self.linear(x), self.weight)
        return torch.relu(torch.ops.scale.scale(y, self.weight))


class Kinds(torch.nn.Module):
    def forward(self, x: Any, bias: Any, cache: Any, rows: Any) -> Any:
        ops = torch.ops.kinds
        least, most = ops.spread(x)
        return (least, most, ops.maybe(x, None, bias), ops.maybe(x),
                ops.total([x, x * 2]), ops.tilt(x, -0.5, b=0.125),
                ops.put_rows_functional(cache, rows, 3))


def exported(model: Any, args: tuple[Any, ...], m: Any, **options: Any) -> Any:
    return torch.onnx.export(
        model, args, dynamo=True, custom_translation_table=m.translations(),
        **options).model_proto


def test_a_model(modules: pathlib.Path) -> None:
    opgraft.load(modules / "scale.so")
    m = opgraft.onnx.load(modules / "scale.so")
    model, batch = Model().eval(), torch.export.Dim("batch")
    proto = exported(model, (torch.randn(3, 4),), m,
                     dynamic_shapes=({0: batch},))
    assert sum(n.domain == "scale" for n in proto.graph.node) == 2
    session = m.session(proto)
    name = session.get_inputs()[0].name
    for rows in (1, 3, 17):
        x = torch.randn(rows, 4)
        y, = session.run(None, {name: x.numpy()})
        torch.testing.assert_close(torch.from_numpy(y), model(x))


def test_kinds_of_arguments(modules: pathlib.Path) -> None:
    opgraft.load(modules / "kinds.so")
    m = opgraft.onnx.load(modules / "kinds.so")
    args = (torch.randn(2, 3, 5), torch.randn(5), torch.randn(8, 7),
            torch.randn(2, 7))
    session = m.session(exported(Kinds(), args, m))
    found = session.run(None, {i.name: a.numpy() for i, a in zip(
        session.get_inputs(), args)})
    for a, b in zip(found, Kinds()(*args), strict=True):
        assert torch.equal(torch.from_numpy(a), b)


def test_an_attribute_that_the_model_computes(modules: pathlib.Path) -> None:
    import onnx_ir

    opgraft.load(modules / "kinds.so")
    m = opgraft.onnx.load(modules / "kinds.so")
    translate = m.translations()[torch.ops.kinds.tilt.default]
    with pytest.raises(ValueError, match="tilt: a is computed by the model"):
        translate(onnx_ir.Value(name="x"), onnx_ir.Value(name="a"))


def test_a_module_that_torch_lacks(modules: pathlib.Path) -> None:
    m = opgraft.onnx.load(modules / "corners.so")
    m.domain = "corners_elsewhere"
    with pytest.raises(ValueError, match="load the file with opgraft.load"):
        m.translations()
