# SPDX-License-Identifier: Apache-2.0
"""What `lint` finds in a model before ONNX Runtime runs it."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import pytest

import build

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
    proto.graph.node[0].attribute[-1].ref_attr_name = "outer"
    assert kinds.lint(proto) == [said]
    node.attribute[-1].CopyFrom(onnx.AttributeProto(  # a tensor's name
        name="x", type=onnx.AttributeProto.INT, ref_attr_name="outer"))
    said, = kinds.lint(model(kinds, [node], {"x": [3]}, ["y"]))
    assert "has no attribute 'x', which ONNX Runtime ignores" in said
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


# --- Models of somebody else (tests/fuzz/onnx_models.py) ----------------------


def test_bytes_that_are_no_model(kinds: Any, tmp_path: pathlib.Path) -> None:
    with pytest.raises(ValueError, match="model: is not an ONNX model: .*; "
                       "expected the bytes of an onnx.ModelProto"):
        kinds.lint(b"\xff\xff\xff")
    path = tmp_path / "model.onnx"
    path.write_bytes(b"\xff\xff\xff")
    with pytest.raises(ValueError, match="model.onnx: is not an ONNX model"):
        kinds.lint(path)
    with pytest.raises(FileNotFoundError):
        kinds.lint(tmp_path / "missing.onnx")


def test_a_model_that_onnx_cannot_infer(kinds: Any) -> None:
    proto = model(kinds, [helper.make_node("Neg", ["x"], ["y"])],
                  {"x": [2]}, ["y"])
    del proto.opset_import[:]
    said, = kinds.lint(proto)
    assert said.startswith("model: onnx cannot infer its sizes: ")


@pytest.mark.parametrize(("change", "text"), [
    (lambda n: n.attribute.extend([helper.make_attribute("at", [1])]),
     "attribute 'at' is INTS, expected INT"),
    (lambda n: n.attribute.extend([onnx.AttributeProto(
        name="at", type=onnx.AttributeProto.INT, ref_attr_name="outer")]),
     "attribute 'at' refers to 'outer' of a function, expected a value"),
    (lambda n: n.attribute.extend([
        onnx.AttributeProto(name="at", type=onnx.AttributeProto.INT,
                            ref_attr_name="outer"),
        helper.make_attribute("at", 1)]),
     "has 2 attributes 'at', expected one"),
])
def test_attributes_that_the_rules_cannot_use(kinds: Any, change: Any,
                                              text: str) -> None:
    node = kinds.node("put_rows_", ["cache", "rows"], ["new"], at=1)
    del node.attribute[:]
    change(node)
    said, = kinds.lint(model(kinds, [node], {"cache": [8, 7], "rows": [2, 7]},
                             ["new"]))
    assert text in said


@pytest.mark.parametrize(("inputs", "text"), [
    (["x"], "input 'y' is missing"), (["", "x"], "input 'x' is missing"),
    (["x", "x", "x"], "has 3 inputs, expected at most 2")])
def test_inputs_that_are_missing_or_too_many(
        kinds: Any, inputs: list[str], text: str) -> None:
    node = helper.make_node("affine", inputs, ["z"], domain="kinds")
    said, = kinds.lint(model(kinds, [node], {"x": [2]}, ["z"]))
    assert text in said
    node = helper.make_node("total", ["x", ""], ["z"], domain="kinds")
    said, = kinds.lint(model(kinds, [node], {"x": [2]}, ["z"]))
    assert "xs has an entry without a name" in said


def test_sizes_that_no_tensor_has(kinds: Any) -> None:
    node = kinds.node("digest", ["x"], ["y"], sizes=[2, -1], factors=[],
                      flag=True)
    said, = kinds.lint(model(kinds, [node], {"x": [2]}, ["y"]))
    assert "a result has the size -1, expected 0 to 9223372036854775807" in said
    proto = model(kinds, [kinds.node("twice", ["x"], ["y"])], {"x": [-5]}, ["y"])
    assert kinds.lint(proto) == []  # not known, as far as ONNX says


def test_sizes_that_grow_with_each_node(tmp_path: pathlib.Path) -> None:
    """A chain of nodes that double the text of a size."""
    source = tmp_path / "doubled.c"
    source.write_text("""#include <opgraft/op.h>
static og_status run(const og_call *call) { (void)call; return OG_OK; }
static const og_kernel kernels[] = {{.device = OG_CPU, .run = run}};
static const og_op ops[] = {{
  .schema = "join(Tensor x, Tensor y) -> Tensor",
  .shape = "x[N], y[M] -> [N + M]",
  .dtype = "x: f32, y: f32 -> x",
  .kernels = OG_KERNELS(kernels)}};
OG_MODULE(doubled, ops)
""")
    m = opgraft.onnx.load(build.module(source, tmp_path / "doubled.so",
                                       "onnxruntime"))
    nodes = [m.node("join", [f"x{i}", f"x{i}"], [f"x{i + 1}"])
             for i in range(64)]
    proto = model(m, nodes, {"x0": ["N"]}, ["x64"])
    assert m.lint(proto) == []
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 1
    said, = m.lint(proto)  # 2 ** 63
    assert "a result has the size 9223372036854775808" in said


def test_nodes_of_every_subgraph(kinds: Any) -> None:
    inner = helper.make_graph([helper.make_node("none", [], ["y"],
                                                domain="kinds")], "inner", [], [])
    outer = helper.make_node("Any", ["x"], ["y"])
    outer.attribute.extend([helper.make_attribute("bodies", [inner, inner])])
    said = kinds.lint(model(kinds, [outer], {"x": [2]}, ["y"]))
    assert sum("module kinds has no such operator" in s for s in said) == 2
