# SPDX-License-Identifier: Apache-2.0
"""ONNX Runtime: shapes at load, in place, attributes, what is refused."""

from __future__ import annotations

import pathlib
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import build

ort = pytest.importorskip("onnxruntime", reason="ONNX Runtime is not in this "
                          "environment: make rivals installs it")
onnx = pytest.importorskip("onnx", reason="onnx is not in this environment: "
                           "make rivals installs it")

from onnx import TensorProto, helper  # noqa: E402

import opgraft.onnx  # noqa: E402

F32 = TensorProto.FLOAT


@pytest.fixture(scope="module")
def scale(modules: pathlib.Path) -> Any:
    return opgraft.onnx.load(modules / "scale.so")


@pytest.fixture(scope="module")
def kinds(modules: pathlib.Path) -> Any:
    return opgraft.onnx.load(modules / "kinds.so")


def model(module: Any, nodes: list[Any], inputs: dict[str, Any],
          outputs: list[str], types: dict[str, int] | None = None) -> Any:
    types = types or {}
    graph = helper.make_graph(
        nodes, "g",
        [helper.make_tensor_value_info(n, types.get(n, F32), s)
         for n, s in inputs.items()],
        [helper.make_empty_tensor_value_info(n) for n in outputs])
    return helper.make_model(graph, ir_version=10, opset_imports=[
        helper.make_opsetid("", 21), module.opset()])


def quiet() -> Any:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    return options


def shapes(session: Any) -> list[Any]:
    return [o.shape for o in session.get_outputs()]


def test_a_chain_with_a_symbolic_batch(scale: Any) -> None:
    nodes = [helper.make_node("Neg", ["x"], ["a"]),
             scale.node("scale", ["a", "w"], ["b"]),
             helper.make_node("Exp", ["b"], ["y"])]
    session = scale.session(model(
        scale, nodes, {"x": ["batch", 4], "w": [4]}, ["y"]))
    assert shapes(session) == [["batch", 4]]
    for batch in (1, 7, 0):
        x = np.random.default_rng(1).standard_normal((batch, 4), np.float32)
        w = np.arange(4, dtype=np.float32)
        y, = session.run(None, {"x": x, "w": w})
        np.testing.assert_allclose(y, np.exp(-x * w), rtol=1e-6)


def test_inferred_shapes(kinds: Any) -> None:
    def inferred(node: Any, inputs: dict[str, Any], count: int = 1) -> list[Any]:
        outputs = list(node.output)[:count]
        return shapes(kinds.session(model(kinds, [node], inputs, outputs),
                                    quiet()))

    spread = kinds.node("spread", ["x"], ["a", "b"])
    assert inferred(spread, {"x": ["n", "m", 5]}, 2) == [["n", "m"]] * 2
    assert inferred(spread, {"x": [2, 3]}, 2) == [[2]] * 2
    digest = kinds.node("digest", ["x"], ["y"], sizes=[4, 2], factors=[0.5],
                        flag=True)
    assert inferred(digest, {"x": ["n"]}) == [[4, 2]]
    total = kinds.node("total", ["p", "q"], ["y"])
    assert inferred(total, {"p": ["n", 3], "q": ["n", 3]}) == [["n", 3]]
    put = kinds.node("put_rows_", ["c", "r"], ["d"], at=1)
    assert inferred(put, {"c": ["t", 4], "r": [1, 4]}) == [["t", 4]]
    # Two names for one size: nothing is said, and the run decides.
    affine = kinds.node("affine", ["x", "y"], ["z"])
    session = kinds.session(model(
        kinds, [affine], {"x": ["n"], "y": ["m"]}, ["z"]), quiet())
    x = np.ones(3, np.float32)
    assert session.run(None, {"x": x, "y": x})[0].tolist() == [1.5] * 3


def test_types_of_an_operator(kinds: Any) -> None:
    node = kinds.node("affine", ["x", "y"], ["z"], a=0.25)
    for dtype, onnx_type in ((np.float64, TensorProto.DOUBLE),
                             (np.float16, TensorProto.FLOAT16)):
        session = kinds.session(model(
            kinds, [node], {"x": [3], "y": [3]}, ["z"],
            {"x": onnx_type, "y": onnx_type}))
        x = np.array([1, 2, 3], dtype)
        z, = session.run(None, {"x": x, "y": x})
        assert z.dtype == dtype and np.array_equal(z, x * dtype(1.25))
    with pytest.raises(Exception, match="affine"):
        kinds.session(model(kinds, [node], {"x": [3], "y": [3]}, ["z"],
                            {"x": TensorProto.INT32, "y": TensorProto.INT32}),
                      quiet())


def test_attributes(kinds: Any) -> None:
    with pytest.raises(Exception, match="attribute at is missing"):
        kinds.session(model(
            kinds, [kinds.node("put_rows_", ["c", "r"], ["d"])],
            {"c": [4, 2], "r": [1, 2]}, ["d"]), quiet())
    node = kinds.node("affine", ["x", "y"], ["z"])
    node.attribute.append(helper.make_attribute("a", "text"))
    with pytest.raises(Exception, match="attribute a could not be read"):
        kinds.session(model(kinds, [node], {"x": [3], "y": [3]}, ["z"]),
                      quiet())
    with pytest.raises(ValueError, match="has no attribute 'b'; it has a"):
        kinds.node("affine", ["x", "y"], ["z"], b=1)
    with pytest.raises(ValueError, match="has no operator 'afine'"):
        kinds.node("afine", ["x", "y"], ["z"])


def test_a_wrong_call_says_what_is_wrong(scale: Any) -> None:
    session = scale.session(model(
        scale, [scale.node("scale", ["x", "w"], ["y"])],
        {"x": ["n", "d"], "w": ["e"]}, ["y"]), quiet())
    with pytest.raises(Exception, match="scale: weight"):
        session.run(None, {"x": np.ones((3, 4), np.float32),
                           "w": np.ones(5, np.float32)})


def test_a_write_takes_the_memory_of_its_argument(kinds: Any) -> None:
    """The cache bound as input and as output: rows are all that is written."""
    session = kinds.session(model(
        kinds, [kinds.node("put_rows_", ["c", "r"], ["d"], at=3)],
        {"c": [8, 4], "r": [2, 4]}, ["d"]))
    cache = ort.OrtValue.ortvalue_from_numpy(np.zeros((8, 4), np.float32))
    binding = session.io_binding()
    binding.bind_ortvalue_input("c", cache)
    binding.bind_cpu_input("r", np.ones((2, 4), np.float32))
    binding.bind_ortvalue_output("d", cache)
    session.run_with_iobinding(binding)
    wanted = np.zeros((8, 4), np.float32)
    wanted[3:5] = 1
    assert np.array_equal(cache.numpy(), wanted)


def test_an_argument_that_is_read_again_stays(kinds: Any) -> None:
    nodes = [helper.make_node("Neg", ["x"], ["c"]),
             kinds.node("put_rows_", ["c", "r"], ["d"], at=0),
             helper.make_node("Add", ["c", "d"], ["y"])]
    session = kinds.session(model(
        kinds, nodes, {"x": [2, 2], "r": [1, 2]}, ["y"]))
    x = np.ones((2, 2), np.float32)
    y, = session.run(None, {"x": x, "r": np.full((1, 2), 5, np.float32)})
    assert y.tolist() == [[4, 4], [-2, -2]]


def test_sizes_that_the_kernel_finds(modules: pathlib.Path) -> None:
    basics = opgraft.onnx.load(modules / "basics.so")
    session = basics.session(model(
        basics, [basics.node("positives", ["x"], ["y"])], {"x": ["n"]}, ["y"]))
    x = np.array([-1, 2, 0, 3], np.float32)
    assert session.run(None, {"x": x})[0].tolist() == [1, 3]


def test_a_list_longer_than_the_arguments(kinds: Any) -> None:
    """Inference reads every entry of a list, and none beyond what it holds."""
    x = np.ones(3, np.float32)
    for count in (31, 32, 33, 64):
        names = [f"x{i}" for i in range(count)]
        session = kinds.session(model(
            kinds, [kinds.node("total", names, ["y"])],
            dict.fromkeys(names, ["n"]), ["y"]))
        assert shapes(session) == [["n"]]
        y, = session.run(None, dict.fromkeys(names, x))
        assert y.tolist() == [count] * 3
    names = [f"x{i}" for i in range(65)]
    session = kinds.session(model(
        kinds, [kinds.node("total", names, ["y"])],
        dict.fromkeys(names, ["n"]), ["y"]), quiet())
    with pytest.raises(Exception, match="more than 64 tensors"):
        session.run(None, dict.fromkeys(names, x))


def test_sizes_of_four_names(kinds: Any) -> None:
    node = kinds.node("affine", ["x", "y"], ["z"])
    names = ["a", "b", "c", "d"]
    session = kinds.session(model(
        kinds, [node], {"x": names, "y": names}, ["z"],
        {"x": TensorProto.DOUBLE, "y": TensorProto.DOUBLE}))
    assert shapes(session) == [names]


def test_an_unknown_size_is_no_number(modules: pathlib.Path) -> None:
    basics = opgraft.onnx.load(modules / "basics.so")
    nodes = [basics.node("positives", ["x"], ["p"]),
             helper.make_node("Add", ["p", "p"], ["y"])]
    session = basics.session(model(basics, nodes, {"x": ["n"]}, ["p", "y"]))
    size, = shapes(session)[0]
    assert isinstance(size, str) and size != "n"
    x = np.array([-1, 2, 0, 3], np.float32)
    assert session.run(None, {"x": x})[1].tolist() == [2, 6]


def test_an_unknown_rank_is_not_rank_zero(kinds: Any) -> None:
    """Nothing is inferred of an operator with optional tensors, and so
    nothing of what reads its result."""
    nodes = [kinds.node("maybe", ["x"], ["a"]),
             kinds.node("affine", ["a", "a"], ["b"], a=1.0),
             helper.make_node("MatMul", ["b", "w"], ["y"])]
    session = kinds.session(model(
        kinds, nodes, {"x": ["n", 2], "w": [2, 2]}, ["y"]))
    x = np.array([[1, 2]], np.float32)
    y, = session.run(None, {"x": x, "w": np.eye(2, dtype=np.float32)})
    assert np.array_equal(y, 2 * x)


def test_an_output_without_a_name(kinds: Any) -> None:
    """Every output is required, so ONNX Runtime refuses the model."""
    for outputs in (["a", ""], ["a"]):
        with pytest.raises(Exception, match="spread.*output"):
            kinds.session(model(
                kinds, [kinds.node("spread", ["x"], outputs)], {"x": [2, 3]},
                ["a"]), quiet())


def test_an_attribute_that_is_a_list(kinds: Any) -> None:
    for value in ([0.25], [1, 2]):
        node = kinds.node("affine", ["x", "y"], ["z"])
        node.attribute.append(helper.make_attribute("a", value))
        with pytest.raises(Exception, match="attribute a could not be read"):
            kinds.session(model(kinds, [node], {"x": [3], "y": [3]}, ["z"]),
                          quiet())


def test_values_that_onnx_lacks(kinds: Any) -> None:
    with pytest.raises(ValueError, match="affine: a: ONNX has no None"):
        kinds.node("affine", ["x", "y"], ["z"], a=None)
    plain = dict(sizes=[1], factors=[0.5], flag=True)
    with pytest.raises(ValueError, match="digest: flag: ONNX has no None"):
        kinds.node("digest", ["x"], ["y"], sizes=[1], factors=[], flag=None)
    assert len(kinds.node("digest", ["x"], ["y"], more=None,
                          **plain).attribute) == 3
    import ml_dtypes
    import torch

    for given in ("bf16", "bfloat16", torch.bfloat16, ml_dtypes.bfloat16,
                  np.dtype(ml_dtypes.bfloat16)):
        node = kinds.node("digest", ["x"], ["y"], kind=given, **plain)
        assert {a.name: a.s for a in node.attribute}["kind"] == b"bf16"
    for wrong in ("f33", torch.float8_e4m3fnuz):
        with pytest.raises(ValueError, match="digest: kind: "):
            kinds.node("digest", ["x"], ["y"], kind=wrong, **plain)


def test_what_is_not_offered(modules: pathlib.Path) -> None:
    limits = opgraft.onnx.load(modules / "limits.so")
    assert set(limits.missing) == {"bump_", "touch", "first", "scaled", "lengths",
                                   "product", "product_backward"}
    with pytest.raises(ValueError, match="first is not offered in ONNX "
                       "Runtime: its types have more than 64 choices"):
        limits.node("first", ["x", "y", "z"], ["w"])
    # Kernels whose types are a set: each choice is offered.
    for onnx_type, dtype in ((TensorProto.DOUBLE, np.float64),
                             (TensorProto.INT64, np.int64)):
        session = limits.session(model(
            limits, [limits.node("same", ["x"], ["y"])], {"x": [3]}, ["y"],
            {"x": onnx_type}))
        x = np.array([1, 2, 3], dtype)
        assert np.array_equal(session.run(None, {"x": x})[0], x)


def test_a_path_whose_file_changed(tmp_path: pathlib.Path) -> None:
    """The dynamic loader gives the old object for a path that it knows."""
    text = build.scale_source()
    (tmp_path / "scale.c").write_text(text)
    path = build.module(tmp_path / "scale.c", tmp_path / "scale.so")
    opgraft.onnx.load(path)
    opgraft.onnx.load(path)
    (tmp_path / "scale.c").write_text(text.replace("OG_MODULE(scale,",
                                                   "OG_MODULE(scale_two,"))
    build.module(tmp_path / "scale.c", path)
    with pytest.raises(ImportError, match="scale.so: the file has changed"):
        opgraft.onnx.load(path)


def test_two_modules_in_one_session(scale: Any, kinds: Any) -> None:
    options = kinds.register(ort.SessionOptions())
    nodes = [scale.node("scale", ["x", "w"], ["a"]),
             kinds.node("tilt", ["a"], ["y"], a=2.0)]
    built = model(scale, nodes, {"x": [3], "w": [3]}, ["y"])
    built.opset_import.append(kinds.opset())
    x = np.array([1, 2, 3], np.float32)
    y, = scale.session(built, options).run(None, {"x": x, "w": x})
    assert np.array_equal(y, x * x * 2 + np.float32(0.25))


def test_many_sessions_in_turn(scale: Any) -> None:
    built = model(scale, [scale.node("scale", ["x", "w"], ["y"])],
                  {"x": [2], "w": [2]}, ["y"])
    x = np.array([3, 4], np.float32)
    for _ in range(20):
        y, = scale.session(built).run(None, {"x": x, "w": x})
        assert y.tolist() == [9, 16]


def test_a_file_of_a_newer_abi(tmp_path: pathlib.Path) -> None:
    """Its record is NULL for the adapters that were linked into it."""
    (tmp_path / "later.c").write_text("""
#include <opgraft/op.h>
OG_EXPORT const og_module *opgraft_module(uint32_t max_abi);
const og_module *opgraft_module(uint32_t max_abi) {
  (void)max_abi;
  return 0;
}
""")
    path = tmp_path / "later.so"
    subprocess.run([build.program(), "build", str(tmp_path / "later.c"), "-o",
                    str(path), "--hosts", "onnxruntime", "--no-load"],
                   check=True)
    why = "compiled with headers newer than ABI 1"
    with pytest.raises(ImportError, match=why):
        opgraft.onnx.load(path)
    with pytest.raises(Exception, match=why):
        ort.SessionOptions().register_custom_ops_library(str(path))


def test_files_that_do_not_serve_it(tmp_path: pathlib.Path) -> None:
    (tmp_path / "scale.c").write_text(build.scale_source())
    plain = build.module(tmp_path / "scale.c", tmp_path / "plain.so", "torch")
    with pytest.raises(ImportError, match="does not serve ONNX Runtime"):
        opgraft.onnx.load(plain)


def test_without_opgraft_and_torch(modules: pathlib.Path,
                                   tmp_path: pathlib.Path, scale: Any) -> None:
    """The file alone serves: nothing of ours is imported."""
    onnx.save(model(scale, [scale.node("scale", ["x", "w"], ["y"])],
                    {"x": [2], "w": [2]}, ["y"]), tmp_path / "m.onnx")
    script = f"""
import sys, numpy, onnxruntime
o = onnxruntime.SessionOptions()
o.register_custom_ops_library({str(modules / 'scale.so')!r})
s = onnxruntime.InferenceSession({str(tmp_path / 'm.onnx')!r}, o)
x = numpy.array([3, 4], 'f')
assert s.run(None, dict(x=x, w=x))[0].tolist() == [9, 16]
assert 'opgraft' not in sys.modules and 'torch' not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True,
                          text=True)
    assert done.returncode == 0, done.stderr


def test_example_in_plain_c(modules: pathlib.Path, tmp_path: pathlib.Path,
                            scale: Any) -> None:
    library = sorted(pathlib.Path(ort.__file__).parent.glob(
        "capi/libonnxruntime.so*"))
    if not library:
        pytest.skip("this wheel of ONNX Runtime has no library of its own")
    onnx.save(model(scale, [scale.node("scale", ["x", "weight"], ["y"])],
                    {"x": ["n", 2], "weight": [2]}, ["y"]),
              tmp_path / "m.onnx")
    program = tmp_path / "run"
    subprocess.run(
        ["cc", "-std=c11", "-Wall", "-Wextra", "-Werror",
         str(build.ROOT / "examples/onnxruntime/run.c"), "-o", str(program),
         "-ldl"], check=True)
    done = subprocess.run(
        [str(program), str(library[0]), str(modules / "scale.so"),
         str(tmp_path / "m.onnx")], capture_output=True, text=True)
    assert done.stdout == "10 200 30 400\n", done.stderr
