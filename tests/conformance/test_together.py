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
LARGE = ["tensorflow"]  # where its environment is


def packages(host: str) -> str | None:
    """Where the host is, if it is elsewhere; it must fit this Python. None
    where it is missing."""
    if importlib.util.find_spec(host) is not None:
        return ""
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    place = build.ROOT / f".venv-{host}/lib/{version}/site-packages"
    return str(place) if place.exists() else None


@pytest.mark.parametrize("first", HOSTS + LARGE)
def test_every_host_over_one_mapping(first: str, modules: pathlib.Path) -> None:
    for host in ("torch", "onnxruntime", "tvm_ffi"):
        if importlib.util.find_spec(host) is None:
            pytest.skip(f"{host} is not in this environment")
    places = {host: packages(host) for host in ("jax", *LARGE)}
    for host in {"jax", first} & set(places):
        if places[host] is None:
            pytest.skip(f"{host} is missing: make hosts-environments "
                        "hosts-matrix")
    there = [h for h in HOSTS + LARGE if places.get(h, "") is not None]
    order = [first, *(h for h in there if h != first)]
    done = subprocess.run(
        [sys.executable, "together.py", str(modules / "scale.so"),
         ":".join(p for p in places.values() if p), ",".join(order)],
        cwd=HERE, capture_output=True, text=True, env=build.environment(sys.executable))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.split()[-1] == "1"
