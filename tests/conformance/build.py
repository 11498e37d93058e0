# SPDX-License-Identifier: Apache-2.0
"""The modules of the host tests, built for every host, and the Python of each
host's environment. Imports no host, so it serves in each."""

from __future__ import annotations

import concurrent.futures
import functools
import os
import pathlib
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
# The names of hosts/hosts.def.
HOSTS = ",".join(re.findall(
    r"^HOST\((\w+),", (ROOT / "hosts/hosts.def").read_text(), re.M))


BUILD = pathlib.Path(os.environ.get("OPGRAFT_BUILD", ROOT / "build"))


def program() -> str:
    places = [BUILD / "bin/opgraft",
              pathlib.Path(sys.executable).with_name("opgraft"),
              ROOT / ".venv/bin/opgraft"]
    for place in places:
        if place.exists():
            return str(place)
    found = shutil.which("opgraft")
    assert found, "no opgraft program: `make setup build`"
    return found


def module(source: pathlib.Path, out: pathlib.Path, hosts: str = HOSTS,
           *flags: str, more: list[pathlib.Path] | None = None) -> pathlib.Path:
    done = subprocess.run(
        [program(), "build", *map(str, [source, *(more or [])]), "-o", str(out),
         "--hosts", hosts, "--", f"-I{ROOT / 'tests/python'}", *flags],
        capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return out


def scale_source() -> str:
    return (HERE / "scale.c").read_text()


def modules(folder: pathlib.Path) -> pathlib.Path:
    """Those of cases.py."""
    for source in (HERE / "scale.c", HERE / "kinds.c", HERE / "limits.c",
                   ROOT / "tests/python/basics.c",
                   ROOT / "tests/python/corners.c"):
        module(source, folder / f"{source.stem}.so")
    return folder


# The operator library: the files of each module.
LIBRARY: dict[str, list[pathlib.Path]] = {}
for _module, _file in re.findall(r"^X\((\w+), (\w+)\)",
                                 (ROOT / "ops/ops.def").read_text(), re.M):
    LIBRARY.setdefault(_module, []).append(ROOT / f"ops/{_file}.c")


def library(folder: pathlib.Path) -> pathlib.Path:
    """The operator library, for every host."""
    parts = [str(BUILD / f"lib/{name}.a") for name in (
        "libog_op_cuda", "libog_op_shared", "libog_kernels",
        "opgraft/hosts/libopgraft_cuda")]

    def one(name: str) -> None:
        first, *rest = LIBRARY[name]
        module(first, folder / f"{name}.so", HOSTS, f"-I{ROOT / 'ops'}",
               f"-I{ROOT / 'src'}", *parts, more=rest)

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        list(pool.map(one, LIBRARY))
    return folder


def python_of(host: str) -> tuple[str | None, str]:
    """The Python that has the host, or None and the reason."""
    chosen = os.environ.get(f"OPGRAFT_PYTHON_{host.upper()}")
    if chosen:  # tools/hosts_matrix.py
        return chosen, ""
    own = ROOT / f".venv-{host}/bin/python"
    if own.exists():
        return str(own), ""
    asked = {"torch": "torch", "jax": "jax", "onnxruntime": "onnxruntime, onnx",
             "tvm_ffi": "tvm_ffi, torch", "aoti": "torch",
             "tensorflow": "tensorflow"}
    done = subprocess.run([sys.executable, "-c", f"import {asked[host]}"],
                          capture_output=True)
    if done.returncode == 0:
        return sys.executable, ""
    return None, (f"{host} is not in this environment, and {own.parents[1].name} "
                  "is missing: make hosts-environments")


@functools.cache
def has_opgraft(python: str) -> bool:
    return subprocess.run(
        [python, "-c", "import importlib.util as u, sys; "
         "sys.exit(u.find_spec('opgraft') is None)"], cwd="/").returncode == 0


def environment(python: str) -> dict[str, str]:
    """With the package's sources, in an environment without opgraft."""
    env = dict(os.environ)
    if not has_opgraft(python):
        env["PYTHONPATH"] = str(ROOT / "python")
    env["JAX_PLATFORMS"] = "cpu"
    return env
