# SPDX-License-Identifier: Apache-2.0
"""A kernel's loops run on several threads, and on as many as the session has."""

from __future__ import annotations

import os
import pathlib
import subprocess

import pytest

import build

HERE = pathlib.Path(__file__).resolve().parent
PROCESSORS = len(os.sched_getaffinity(0))

CALLS = {
    "jax": """
import jax, numpy as np, opgraft.jax
jax.config.update("jax_enable_x64", True)
m = opgraft.jax.load(path)
found = [np.asarray(m.threads(np.zeros(size, "f"))) for _ in range(50)]
""",
    "tvm_ffi": """
import numpy as np, tvm_ffi
m = tvm_ffi.load_module(path)
found = [np.from_dlpack(m.threads(np.zeros(size, "f"))) for _ in range(50)]
""",
    "onnxruntime": """
import numpy as np, onnx, onnxruntime, opgraft.onnx
from onnx import TensorProto, helper
m = opgraft.onnx.load(path)
graph = helper.make_graph(
    [m.node("threads", ["x"], ["y"])], "one",
    [helper.make_tensor_value_info("x", TensorProto.FLOAT, [size])],
    [helper.make_tensor_value_info("y", TensorProto.INT64, [size])])
model = helper.make_model(graph, ir_version=10, opset_imports=[
    helper.make_opsetid("", 21), m.opset()])
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = threads
session = m.session(model, options)
found = [session.run(None, {"x": np.zeros(size, "f")})[0] for _ in range(50)]
""",
}


def used(host: str, path: pathlib.Path, threads: int = 0, size: int = 2048
         ) -> int:
    """The most threads that one of several calls had."""
    python, reason = build.python_of(host)
    if python is None:
        pytest.skip(reason)
    script = (f"path, threads, size = {str(path)!r}, {threads}, {size}\n" + CALLS[host]
              + "print(max(len(set(f.tolist())) for f in found))")
    done = subprocess.run([python, "-c", script], capture_output=True,
                          text=True, env=build.environment(python))
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


@pytest.mark.skipif(PROCESSORS < 2, reason="the machine has one processor")
@pytest.mark.parametrize("host", sorted(CALLS))
def test_loops_use_threads(host: str, modules: pathlib.Path) -> None:
    # ONNX Runtime's own choice counts cores, not the processors of this process.
    found = used(host, modules / "limits.so", PROCESSORS)
    assert 2 <= found <= PROCESSORS


@pytest.mark.parametrize("host", sorted(CALLS))
def test_a_small_call_stays_on_its_thread(host: str, modules: pathlib.Path
                                          ) -> None:
    assert used(host, modules / "limits.so", size=1023) == 1


def test_a_session_of_one_thread(modules: pathlib.Path) -> None:
    assert used("onnxruntime", modules / "limits.so", 1) == 1
