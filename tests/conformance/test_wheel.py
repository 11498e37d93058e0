# SPDX-License-Identifier: Apache-2.0
"""examples/wheel_ops, one wheel, installed beside one host alone."""

from __future__ import annotations

import importlib.util
import pathlib
import subprocess
import sys

import pytest

import build

pytest.importorskip("torch", reason="PyTorch is not in this environment")

USES = {
    "torch": """
import torch, my_ops
y = my_ops.squared_relu(torch.tensor([-1.0, 2.0, 3.0])).tolist()
""",
    "jax": """
import jax, my_ops.in_jax
x = jax.numpy.array([-1.0, 2.0, 3.0], jax.numpy.float32)
y = jax.jit(my_ops.in_jax.squared_relu)(x).tolist()
assert jax.grad(lambda x: my_ops.in_jax.squared_relu(x).sum())(x).tolist() == [0, 4, 6]
""",
    "onnxruntime": """
import numpy as np
from onnx import helper
from my_ops.in_onnx import module
value = lambda name: helper.make_tensor_value_info(name, 1, [3])
graph = helper.make_graph([module.node("squared_relu", ["x"], ["y"])], "one",
                          [value("x")], [value("y")])
model = helper.make_model(graph, ir_version=8, opset_imports=[
    helper.make_opsetid("", 18), module.opset()])
y = module.session(model).run(None, {"x": np.array([-1, 2, 3], np.float32)})[0].tolist()
""",
}
ALONE = """
import importlib.util as u
others = [n for n in ("torch", "jax", "onnxruntime") if u.find_spec(n)]
print(others, y)
"""


def run(*words: object, **more: str) -> str:
    done = subprocess.run([str(w) for w in words], capture_output=True,
                          text=True, **more)  # type: ignore[call-overload]
    assert done.returncode == 0, done.stdout + done.stderr
    return str(done.stdout)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The wheel and opgraft, and nothing else."""
    folder = tmp_path_factory.mktemp("wheel")
    env = {**build.environment(sys.executable)}
    env["PATH"] = f"{pathlib.Path(build.program()).parent}:{env['PATH']}"
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-build-isolation",
        "--no-deps", "-w", folder, build.ROOT / "examples/wheel_ops", env=env)
    (wheel,) = folder.glob("my_ops-1.0-py3-none-*.whl")
    run(sys.executable, "-m", "pip", "install", "--quiet", "--no-index",
        "--no-deps", "--target", folder / "site", wheel)
    spec = importlib.util.find_spec("opgraft")
    assert spec is not None and spec.origin is not None
    (folder / "site/opgraft").symlink_to(pathlib.Path(spec.origin).parent)
    return folder / "site"


@pytest.mark.parametrize("host", sorted(USES))
def test_one_wheel_beside_one_host(site: pathlib.Path, host: str) -> None:
    python, reason = build.python_of(host)
    if python is None:
        pytest.skip(reason)
    env = {**build.environment(python), "PYTHONPATH": str(site)}
    words = run(python, "-c", USES[host] + ALONE, cwd="/", env=env)
    if host != "torch" and "torch" in words:
        pytest.skip(f"{host} stands beside PyTorch here: make hosts-matrix")
    assert words.endswith(" [0.0, 4.0, 9.0]\n")
    assert host in words
