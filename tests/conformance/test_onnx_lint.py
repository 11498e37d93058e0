# SPDX-License-Identifier: Apache-2.0
"""What `lint` finds in a model before ONNX Runtime runs it."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnxruntime", reason="ONNX Runtime is not here")
onnx = pytest.importorskip("onnx", reason="onnx is not here")

from onnx import helper  # noqa: E402
from test_onnxruntime import model, quiet  # noqa: E402

import opgraft.onnx  # noqa: E402


@pytest.fixture(scope="module")
def scale(modules: pathlib.Path) -> Any:
    return opgraft.onnx.load(modules / "scale.so")


@pytest.fixture(scope="module")
def kinds(modules: pathlib.Path) -> Any:
    return opgraft.onnx.load(modules / "kinds.so")


def fails_at_run(m: Any, proto: Any, feeds: dict[str, Any]) -> str:
    """The model loads, and the run says what is wrong."""
    session = m.session(proto, quiet())
    with pytest.raises(Exception) as caught:
        session.run(None, feeds)
    return str(caught.value)


def test_sizes_that_contradict_the_rule(scale: Any) -> None:
    proto = model(scale, [
        helper.make_node("Neg", ["x"], ["a"]),
        scale.node("scale", ["a", "w"], ["b"], name="one"),
        helper.make_node("Transpose", ["b"], ["c"]),
        scale.node("scale", ["c", "w"], ["d"], name="two"),
    ], {"x": ["batch", 4], "w": [4]}, ["d"])
    assert scale.lint(proto) == []  # the batch may be 4
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 3
    said, = scale.lint(proto)
    assert said == ("node 'two': scale: weight[D]: found 4, expected 3")
    x, w = np.zeros((3, 4), "f"), np.zeros(4, "f")
    assert "scale: weight[D]: D is 4 here" in fails_at_run(
        scale, proto, {"x": x, "w": w})
    assert scale.lint(proto.SerializeToString()) == [said]


def test_conditions_and_results(kinds: Any) -> None:
    proto = model(kinds, [
        kinds.node("put_rows_", ["cache", "rows"], ["new"], at=7),
    ], {"cache": [8, 7], "rows": [2, 7]}, ["new"])
    said, = kinds.lint(proto)
    assert "where at + R <= T does not hold" in said
    del proto.graph.node[0].attribute[:]
    assert "attribute 'at' is missing" in kinds.lint(proto)[0]


def test_a_declared_result(kinds: Any) -> None:
    proto = model(kinds, [kinds.node("spread", ["x"], ["a", "b"])],
                  {"x": ["n", 5]}, ["b"])
    assert kinds.lint(proto) == []
    proto.graph.value_info.append(
        helper.make_tensor_value_info("a", 1, ["n", 5]))
    said, = kinds.lint(proto)
    assert "output 'a' is declared as [n, 5], expected [n]" in said


def test_attributes_that_are_ignored(kinds: Any) -> None:
    node = kinds.node("affine", ["x", "x"], ["y"], a=2.0)
    node.attribute.append(helper.make_attribute("b", 1.0))
    proto = model(kinds, [node], {"x": [3]}, ["y"])
    said, = kinds.lint(proto)
    assert "has no attribute 'b', which ONNX Runtime ignores" in said
    del node.attribute[:]
    node.attribute.append(helper.make_attribute("a", 2))
    proto = model(kinds, [node], {"x": [3]}, ["y"])
    assert kinds.lint(proto) == []
    x = np.array([1, 2, 3], "f")
    y, = kinds.session(proto, quiet()).run(None, {"x": x})
    assert np.array_equal(y, x + 2 * x)


def test_an_attribute_of_another_kind(kinds: Any) -> None:
    node = kinds.node("affine", ["x", "x"], ["y"])
    node.attribute.append(helper.make_attribute("a", "2"))
    proto = model(kinds, [node], {"x": [3]}, ["y"])
    said, = kinds.lint(proto)
    assert ("attribute 'a' is STRING, expected FLOAT or INT; ONNX Runtime "
            "refuses to load the model") in said
    with pytest.raises(Exception, match="attribute a could not be read as a "
                                        "float"):
        kinds.session(proto, quiet())


def test_outputs_without_a_name(kinds: Any) -> None:
    node = kinds.node("spread", ["x"], ["a", ""])
    proto = model(kinds, [node], {"x": [2, 3]}, ["a"])
    said, = kinds.lint(proto)
    assert "1 outputs have a name, expected 2" in said


def test_operators_that_are_missing(kinds: Any) -> None:
    node = helper.make_node("scatter_rows", ["x"], ["a"], domain="kinds")
    said, = kinds.lint(model(kinds, [node], {"x": [2]}, ["a"]))
    assert "module kinds has no such operator" in said


def test_models_that_are_right(kinds: Any, scale: Any) -> None:
    """A lint that cries wolf is not read."""
    x = {"x": ["b", "s", 6], "y": [6]}
    proto = model(kinds, [
        kinds.node("maybe", ["x", "", "y"], ["m"]),
        kinds.node("total", ["m", "x"], ["t"]),
        helper.make_node("Reshape", ["t", "to"], ["r"]),
        kinds.node("spread", ["r"], ["least", "most"]),
        helper.make_node("Add", ["least", "most"], ["sum"]),
    ], x, ["sum"])
    proto.graph.initializer.append(
        onnx.numpy_helper.from_array(np.array([-1, 3], np.int64), "to"))
    assert kinds.lint(proto) == []
    session = kinds.session(proto)
    session.run(None, {"x": np.ones((2, 4, 6), "f"), "y": np.ones(6, "f")})
