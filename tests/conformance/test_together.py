# SPDX-License-Identifier: Apache-2.0
"""One process with every host over one mapping of a file."""

from __future__ import annotations

import importlib.util
import pathlib
import subprocess
import sys

import pytest

import build

HERE = pathlib.Path(__file__).resolve().parent
HOSTS = ["torch", "jax", "onnxruntime", "tvm_ffi", "aoti"]


def packages_of_jax() -> str:
    """Where JAX is, if it is elsewhere; it must fit this Python."""
    if importlib.util.find_spec("jax") is not None:
        return ""
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    place = build.ROOT / f".venv-jax/lib/{version}/site-packages"
    if not place.exists():
        pytest.skip("JAX is missing: make hosts-environments")
    return str(place)


@pytest.mark.parametrize("first", HOSTS)
def test_every_host_over_one_mapping(first: str, modules: pathlib.Path) -> None:
    for host in ("torch", "onnxruntime", "tvm_ffi"):
        if importlib.util.find_spec(host) is None:
            pytest.skip(f"{host} is not in this environment")
    order = [first, *(h for h in HOSTS if h != first)]
    done = subprocess.run(
        [sys.executable, "together.py", str(modules / "scale.so"),
         packages_of_jax(), ",".join(order)], cwd=HERE, capture_output=True,
        text=True, env=build.environment(sys.executable))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.split()[-1] == "1"
