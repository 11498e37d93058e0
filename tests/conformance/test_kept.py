# SPDX-License-Identifier: Apache-2.0
"""Calls that follow each other, like the one before or not: what an adapter
keeps from one never shows in the next."""

from __future__ import annotations

import pathlib
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

CALLS = 3000
SHAPES = ((2, 3), (3, 2), (2, 3, 1), (6,), (0, 3))


def laid_out(rng: Any, shape: tuple[int, ...]) -> Any:
    """Values of this shape: dense, across, apart, reversed or at an offset."""
    values = rng.standard_normal(shape).astype("f")
    kind = rng.integers(5)
    if kind == 1:
        return np.ascontiguousarray(values.T).T
    if kind == 2:
        wide = np.zeros((*shape, 2), "f")
        wide[..., 1] = values
        return wide[..., 1]
    if kind == 3:
        return values[::-1]
    if kind == 4:
        long = np.zeros(values.size + 5, "f")
        long[3:3 + values.size] = values.ravel()
        return long[3:3 + values.size].reshape(shape)
    return values


class Drawn:
    """Calls of operators of kinds.so, each beside NumPy."""

    def __init__(self, module: Any, seed: int) -> None:
        self.module = module
        self.rng = np.random.default_rng(seed)

    def shape(self) -> tuple[int, ...]:
        return SHAPES[self.rng.integers(len(SHAPES))]

    def given(self, wanted: Any, call: Callable[..., Any], *args: Any) -> None:
        """The call, at times with a result of the caller's."""
        if self.rng.integers(2):
            found = laid_out(self.rng, wanted.shape)
            assert call(*args, found) is None
        else:
            found = np.from_dlpack(call(*args))
        np.testing.assert_array_equal(found, wanted)

    def affine(self) -> None:
        shape = self.shape()
        x, y = (laid_out(self.rng, shape) for _ in range(2))
        if self.rng.integers(8) == 0:
            with pytest.raises(ValueError, match="affine: "):
                self.module.affine(x, y[..., None], 0.5)
        if self.rng.integers(8) == 0 and x.size > 1:
            with pytest.raises(ValueError, match="affine: .*clone"):
                self.module.affine(x, y, 0.5, x[::-1])
        a = (0.5, 2.0)[self.rng.integers(2)]
        self.given(x + np.float32(a) * y, self.module.affine, x, y, a)
        if a == 0.5:
            np.testing.assert_array_equal(
                np.from_dlpack(self.module.affine(x, y)), x + np.float32(a) * y)

    def twice(self) -> None:
        type_ = ("i1", "i4", "u1")[self.rng.integers(3)]
        x = self.rng.integers(0, 50, self.shape()).astype(type_)
        np.testing.assert_array_equal(np.from_dlpack(self.module.twice(x)),
                                      x + x)

    def maybe(self) -> None:
        x = laid_out(self.rng, (2, 3))
        bias, scale = (laid_out(self.rng, (3,)) if self.rng.integers(2)
                       else None for _ in range(2))
        wanted = x * (1 if scale is None else scale) + (
            0 if bias is None else bias)
        found = np.from_dlpack(self.module.maybe(x, bias, scale))
        np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)

    def put_rows(self) -> None:
        cache, rows = laid_out(self.rng, (4, 3)), laid_out(self.rng, (2, 3))
        at = int(self.rng.integers(4))
        wanted = cache.copy()
        if at > 2:
            with pytest.raises(ValueError, match="put_rows_: where: "):
                self.module.put_rows_(cache, rows, at)
        else:
            self.module.put_rows_(cache, rows, at)
            wanted[at:at + 2] = rows
        np.testing.assert_array_equal(cache, wanted)

    def put_rows_from_itself(self) -> None:
        cache = laid_out(self.rng, (4, 3))
        with pytest.raises(ValueError, match="put_rows_: cache is written"):
            self.module.put_rows_(cache, cache[1:3], 0)

    def any(self) -> None:
        kinds = (self.affine, self.twice, self.maybe, self.put_rows,
                 self.put_rows_from_itself)
        kinds[self.rng.integers(len(kinds))]()


@pytest.mark.parametrize("seed", range(3))
def test_tvm_ffi(modules: pathlib.Path, seed: int) -> None:
    tvm_ffi = pytest.importorskip(
        "tvm_ffi", reason="apache-tvm-ffi is not in this environment")
    drawn = Drawn(tvm_ffi.load_module(str(modules / "kinds.so")), seed)
    for _ in range(CALLS):
        drawn.any()


def at_once(run: Callable[[int], None]) -> None:
    errors: list[BaseException] = []

    def guarded(seed: int) -> None:
        try:
            run(seed)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(s,)) for s in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors[0]


def test_tvm_ffi_from_threads(modules: pathlib.Path) -> None:
    tvm_ffi = pytest.importorskip(
        "tvm_ffi", reason="apache-tvm-ffi is not in this environment")
    module = tvm_ffi.load_module(str(modules / "kinds.so"))

    def run(seed: int) -> None:
        drawn = Drawn(module, seed)
        for _ in range(CALLS // 4):
            drawn.any()

    at_once(run)


# --- ONNX Runtime ------------------------------------------------------------


def session_of(modules: pathlib.Path) -> Any:
    """y = maybe(affine(x, x), bias); cache with x's rows."""
    pytest.importorskip("onnxruntime", reason="ONNX Runtime is not in this "
                        "environment")
    onnx = pytest.importorskip("onnx", reason="onnx is not in this environment")
    import opgraft.onnx

    helper, f32 = onnx.helper, onnx.TensorProto.FLOAT
    module = opgraft.onnx.load(modules / "kinds.so")
    nodes = [module.node("affine", ["x", "x"], ["a"], a=2.0),
             module.node("maybe", ["a", "bias", ""], ["y"]),
             module.node("put_rows_", ["cache", "x"], ["kept"], at=1)]
    inputs = {"x": ["n", "d"], "bias": ["d"], "cache": ["t", "d"]}
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info(n, f32, s)
                     for n, s in inputs.items()],
        [helper.make_empty_tensor_value_info(n) for n in ("y", "kept")])
    return module.session(helper.make_model(
        graph, ir_version=10,
        opset_imports=[helper.make_opsetid("", 21), module.opset()]))


def sessions_run(session: Any, seed: int, calls: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(calls):
        n, d = int(rng.integers(0, 3)), int(rng.integers(1, 3))
        x, bias, cache = (rng.standard_normal(s).astype("f")
                          for s in ((n, d), (d,), (4, d)))
        before = cache.copy()
        y, kept = session.run(None, {"x": x, "bias": bias, "cache": cache})
        np.testing.assert_allclose(y, 3 * x + bias, rtol=1e-6, atol=1e-6)
        wanted = before.copy()
        wanted[1:1 + n] = x
        np.testing.assert_array_equal(kept, wanted)
        np.testing.assert_array_equal(cache, before)


def test_onnxruntime(modules: pathlib.Path) -> None:
    sessions_run(session_of(modules), 0, CALLS)


def test_onnxruntime_from_threads(modules: pathlib.Path) -> None:
    session = session_of(modules)
    at_once(lambda seed: sessions_run(session, seed, CALLS // 4))


def chain_of(modules: pathlib.Path, rng: Any) -> tuple[Any, float]:
    """A session of three affine(x, x, a), and what it multiplies x by."""
    onnx = pytest.importorskip("onnx", reason="onnx is not in this environment")
    import opgraft.onnx

    module = opgraft.onnx.load(modules / "kinds.so")
    numbers = rng.choice((0.5, 2.0, 3.0), 3)
    graph = onnx.helper.make_graph(
        [module.node("affine", [f"x{i}"] * 2, [f"x{i + 1}"], a=float(a))
         for i, a in enumerate(numbers)], "g",
        [onnx.helper.make_tensor_value_info(
            "x0", onnx.TensorProto.FLOAT, ["n", "d"])],
        [onnx.helper.make_empty_tensor_value_info("x3")])
    session = module.session(onnx.helper.make_model(
        graph, ir_version=10,
        opset_imports=[onnx.helper.make_opsetid("", 21), module.opset()]))
    return session, float(np.prod(1 + numbers))


@pytest.mark.parametrize("seed", range(3))
def test_onnxruntime_nodes_with_equal_attributes(
        modules: pathlib.Path, seed: int) -> None:
    """Nodes that share a kept call, in sessions that come and go."""
    pytest.importorskip("onnxruntime", reason="ONNX Runtime is not in this "
                        "environment")
    rng = np.random.default_rng(seed)
    chains = [chain_of(modules, rng) for _ in range(3)]
    for _ in range(CALLS // 10):
        if rng.integers(20) == 0:
            chains[rng.integers(3)] = chain_of(modules, rng)
        session, times = chains[rng.integers(3)]
        x = rng.integers(-8, 8, (int(rng.integers(0, 3)), 2)).astype("f")
        np.testing.assert_array_equal(session.run(None, {"x0": x})[0],
                                      x * np.float32(times))


def test_onnxruntime_nodes_with_lists(modules: pathlib.Path) -> None:
    """Lists and texts of one length that differ in their last entry."""
    pytest.importorskip("onnxruntime", reason="ONNX Runtime is not in this "
                        "environment")
    onnx = pytest.importorskip("onnx", reason="onnx is not in this environment")
    import opgraft.onnx

    module = opgraft.onnx.load(modules / "kinds.so")
    drawn = [([1, last], [0.5, half], text) for last in (1, 2)
             for half in (0.25, 0.75) for text in ("ab", "ac")] * 2
    graph = onnx.helper.make_graph(
        [module.node("digest", ["x"], [f"y{i}"], sizes=sizes, factors=factors,
                     flag=False, text=text)
         for i, (sizes, factors, text) in enumerate(drawn)], "g",
        [onnx.helper.make_tensor_value_info(
            "x", onnx.TensorProto.FLOAT, [3])],
        [onnx.helper.make_empty_tensor_value_info(f"y{i}")
         for i in range(len(drawn))])
    session = module.session(onnx.helper.make_model(
        graph, ir_version=10,
        opset_imports=[onnx.helper.make_opsetid("", 21), module.opset()]))
    for _ in range(3):
        found = session.run(None, {"x": np.zeros(3, "f")})
        for (sizes, factors, text), y in zip(drawn, found):
            wanted = float(sum(sizes) + sum(factors))
            for letter in text:
                wanted = 3 * wanted + ord(letter)
            np.testing.assert_array_equal(
                y, np.full(sizes, wanted + 2 * 8, "f"))
