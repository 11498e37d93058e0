# SPDX-License-Identifier: Apache-2.0
"""TensorFlow: eager, tf.function, gradients, forwarding. Runs where TensorFlow
is (`make hosts-matrix`)."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from typing import Any

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
tf = pytest.importorskip(
    "tensorflow", reason="TensorFlow is not in this environment: "
    "make hosts-matrix runs it in one that has it")

import numpy as np  # noqa: E402

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "docs"))
import docstrings  # noqa: E402

import build  # noqa: E402
import opgraft.tensorflow  # noqa: E402


@pytest.fixture(scope="module")
def scale(modules: pathlib.Path) -> Any:
    return opgraft.tensorflow.load(modules / "scale.so")


@pytest.fixture(scope="module")
def kinds(modules: pathlib.Path) -> Any:
    return opgraft.tensorflow.load(modules / "kinds.so")


@pytest.fixture(scope="module")
def basics(modules: pathlib.Path) -> Any:
    return opgraft.tensorflow.load(modules / "basics.so")


def drawn(*shape: int, seed: int = 0) -> Any:
    return tf.constant(
        np.random.default_rng(seed).standard_normal(shape), tf.float32)


@pytest.mark.parametrize("name", ["Module", "load"])
def test_tensorflow_docstring(name: str, tmp_path: pathlib.Path,
                              monkeypatch: pytest.MonkeyPatch) -> None:
    docstrings.folder_fill(tmp_path, build.program(), "tensorflow")
    monkeypatch.chdir(tmp_path)
    texts = {n: text for n, text, _ in docstrings.examples("tensorflow")}
    assert docstrings.run("tensorflow", name, texts[name], {
        "tf": tf, "opgraft": opgraft}) == ""


@pytest.mark.parametrize("is_compiled", [False, True])
def test_gradient(scale: Any, is_compiled: bool) -> None:
    x, w = drawn(3, 4), drawn(4)

    def gradients(product: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([x, w])
            loss = tf.reduce_sum(tf.sin(product(x, w)))
        return tape.gradient(loss, [x, w])

    call = tf.function(gradients) if is_compiled else gradients
    for a, b in zip(call(scale.scale), call(lambda x, w: x * w)):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_gradient_reads_other_arguments(basics: Any) -> None:
    x, y = drawn(5, seed=1), drawn(5, seed=2)
    with tf.GradientTape() as tape:
        tape.watch([x, y])
        loss = tf.reduce_sum(basics.scale_add(x, y, 0.25) ** 3)
    ours = tape.gradient(loss, [x, y])
    with tf.GradientTape() as tape:
        tape.watch([x, y])
        loss = tf.reduce_sum((x + 0.25 * y) ** 3)
    for a, b in zip(ours, tape.gradient(loss, [x, y])):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


def test_a_missing_gradient_is_an_error(basics: Any) -> None:
    x = drawn(3)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = basics.no_gradient(x)
    with pytest.raises(LookupError, match="no_gradient: has no gradient"):
        tape.gradient(y, x)


def traced(function: Any, *shapes: Any) -> Any:
    made = tf.function(function).get_concrete_function(
        *(tf.TensorSpec(s, tf.float32) for s in shapes))
    return made.structured_outputs.shape


def test_sizes_that_are_not_known(scale: Any, kinds: Any, basics: Any) -> None:
    assert traced(scale.scale, [None, 4], [4]).as_list() == [None, 4]
    assert traced(scale.scale, [None, 4], [None]).as_list() == [None, 4]
    assert traced(lambda x, y: kinds.affine(x, y), [None, 4], [3, None]
                  ).as_list() == [3, 4]
    assert traced(lambda x, y: kinds.affine(x, y), [None, None], [None, None]
                  ).as_list() == [None, None]
    assert traced(basics.positives, [12]).as_list() == [None]
    with pytest.raises(ValueError, match="rank of an argument is not known"):
        traced(scale.scale, None, [4])


def test_one_trace_runs_every_size(scale: Any) -> None:
    call = tf.function(scale.scale, input_signature=[
        tf.TensorSpec([None, 4]), tf.TensorSpec([4])])
    w = drawn(4)
    for rows in (0, 1, 3, 500):
        x = drawn(rows, 4)
        assert call(x, w).numpy().tobytes() == (x * w).numpy().tobytes()
    assert call.experimental_get_tracing_count() == 1


def test_a_wrong_call_says_what_eager_says(scale: Any) -> None:
    text = r"scale: weight\[D\]: D is 5 here, but x\[..., D\] has 4"
    call = tf.function(scale.scale, input_signature=[
        tf.TensorSpec([None, None]), tf.TensorSpec([None])])
    with pytest.raises(tf.errors.InvalidArgumentError, match=text):
        call(drawn(3, 4), drawn(5))
    with pytest.raises(ValueError, match=text):
        scale.scale(drawn(3, 4), drawn(5))


def test_an_argument_stays_as_it_is(basics: Any) -> None:
    x = drawn(3)
    before = x.numpy().tobytes()
    y = basics.add_to_(x, 1.5)
    assert x.numpy().tobytes() == before
    np.testing.assert_array_equal(y, x + 1.5)


def test_a_chain_of_writes_is_forwarded(basics: Any) -> None:
    """Each step writes where the last one did: the peak of TensorFlow's
    memory is that of two tensors, not of 21."""
    @tf.function
    def chain(x: Any) -> Any:
        for _ in range(20):
            x = basics.add_to_(x, 1.5)
        return x

    np.testing.assert_array_equal(chain(tf.zeros([1000])), np.full(1000, 30.0))


def test_equal_values_differ_by_their_bits(kinds: Any) -> None:
    x = tf.zeros([3])
    for zero in (0.0, -0.0):
        call = tf.function(lambda x: kinds.tilt(x, zero, zero))  # noqa: B023
        assert (call(x).numpy().tobytes() ==
                kinds.tilt(x, zero, zero).numpy().tobytes())


def test_a_node_is_read_from_a_graph(scale: Any) -> None:
    made = tf.function(scale.scale).get_concrete_function(
        tf.TensorSpec([None, 4]), tf.TensorSpec([4]))
    graph = made.graph.as_graph_def()
    with tf.Graph().as_default() as other:
        tf.import_graph_def(graph, name="")
    assert scale.scale.node in {op.type for op in other.get_operations()}


@pytest.mark.parametrize("call, text", [
    ([], "a call of 0 words is short"),
    ([1, 7], "neither given nor absent"),
    ([1, 0], "found 2 inputs, expected 1"),
])
def test_a_node_of_other_words_is_refused(scale: Any, call: list[int],
                                          text: str) -> None:
    from tensorflow.python.framework import op_def_library

    @tf.function
    def run(x: Any, w: Any) -> Any:
        return op_def_library.apply_op(
            scale.scale.node, inputs=[x, w], call=call, Tout=[tf.float32],
            op="scale")

    with pytest.raises(tf.errors.InvalidArgumentError, match=text):
        run(drawn(3, 4), drawn(4))


def test_a_node_with_another_type_is_refused(scale: Any) -> None:
    from tensorflow.python.framework import op_def_library

    @tf.function
    def run(x: Any, w: Any) -> Any:
        return op_def_library.apply_op(
            scale.scale.node, inputs=[x, w], call=[1, 1], Tout=[tf.float64],
            op="scale")

    with pytest.raises(tf.errors.InvalidArgumentError,
                       match="output 0 has TensorFlow's type 2"):
        run(drawn(3, 4), drawn(4))


def test_a_second_file_of_one_name(scale: Any, tmp_path: pathlib.Path) -> None:
    other = tmp_path / "scale.c"
    other.write_text(build.scale_source() + "// another\n")
    m = opgraft.tensorflow.load(
        build.module(other, tmp_path / "scale.so", "tensorflow", "-DOTHER=1"))
    assert m is scale or m.scale.node != scale.scale.node
    np.testing.assert_array_equal(m.scale(drawn(3, 4), drawn(4)),
                                  scale.scale(drawn(3, 4), drawn(4)))


def test_a_file_without_the_adapter(tmp_path: pathlib.Path) -> None:
    path = build.module(pathlib.Path(__file__).with_name("scale.c"),
                        tmp_path / "plain.so", "torch")
    with pytest.raises(ImportError, match="does not serve TensorFlow"):
        opgraft.tensorflow.load(path)


def test_flush_to_zero_stays_tensorflows(kinds: Any) -> None:
    """In tf.function kernels run on TensorFlow's threads, which have it set."""
    tiny = tf.constant([1e-40, -1e-40], tf.float32)
    call = tf.function(lambda x: kinds.affine(tf.zeros_like(x), x, a=0.75))
    wanted = np.float32(0.75) * np.array([1e-40, -1e-40], np.float32)
    assert call(tiny).numpy().tobytes() == wanted.tobytes()


def test_abi() -> None:
    done = subprocess.run(
        ["g++", "-std=c++17", "-fsyntax-only",
         f"-I{tf.sysconfig.get_include()}", f"-I{build.ROOT / 'include'}",
         f"-I{build.ROOT / 'hosts'}",
         str(pathlib.Path(__file__).with_name("abi_tensorflow.cpp"))],
        capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
