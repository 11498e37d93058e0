# SPDX-License-Identifier: Apache-2.0
"""The opaque things that the tests adopt, each built once a session."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any, Iterator

import pytest
import torch

from opgraft._adopt import adopted

HERE = Path(__file__).resolve().parent


def build_extension(folder: Path) -> Path:
    """The pybind11 module; built once for a source, since that takes 10 s."""
    import pybind11

    source = HERE / "opaque.cpp"
    command = [
        os.environ.get("CXX", "c++"), "-std=c++17", "-O0", "-shared", "-fPIC",
        "-fvisibility=hidden", f"-I{pybind11.get_include()}",
        f"-I{sysconfig.get_paths()['include']}", str(source)]
    key = hashlib.sha256(f"{command}{source.read_text()}".encode()).hexdigest()
    kept = HERE.parents[2] / "build" / f"opaque_{key[:16]}.so"
    out = folder / "opaque.so"
    if not kept.exists():
        subprocess.run([*command, "-o", str(out)], check=True)
        kept.parent.mkdir(exist_ok=True)
        part = kept.with_suffix(f".{os.getpid()}")
        shutil.copy(out, part)
        part.replace(kept)
    else:
        shutil.copy(kept, out)
    return out


def import_extension(out: Path) -> Any:
    spec = importlib.util.spec_from_file_location("opaque", out)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["opaque"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def opaque(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The pybind11 module."""
    return import_extension(
        build_extension(tmp_path_factory.mktemp("opaque")))


def build_library(out: Path, *flags: str, source: str = "native.c") -> Path:
    subprocess.run(
        [os.environ.get("CC", "cc"), "-std=c11", "-O1", "-shared", "-fPIC",
         "-fvisibility=hidden", str(HERE / source), *flags, "-o", str(out),
         "-lm"], check=True)
    return out


@pytest.fixture(scope="session")
def native(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The C library."""
    return build_library(tmp_path_factory.mktemp("native") / "libnative.so")


@pytest.fixture(scope="session")
def tvm_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library of TVM-FFI functions."""
    libinfo = pytest.importorskip("tvm_ffi").libinfo
    needed = libinfo.find_libtvm_ffi()
    return build_library(
        tmp_path_factory.mktemp("tvm") / "libtvm.so", str(needed),
        f"-Wl,-rpath,{Path(needed).parent}", source="tvm.c")


@pytest.fixture(autouse=True)
def unadopted() -> Iterator[None]:
    """Every test starts with nothing adopted."""
    yield
    for module in set(adopted._live.values()):
        module._withdraw()
    torch._dynamo.reset()
