# SPDX-License-Identifier: Apache-2.0
"""What the Python tests share: C files become modules, once a session."""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Callable

import pytest

# Code compiled by an earlier version of the package must not answer here.
os.environ["TORCHINDUCTOR_CACHE_DIR"] = tempfile.mkdtemp(prefix="opgraft-")

ROOT = Path(__file__).resolve().parents[2]


def include_dir() -> Path:
    return ROOT / "include"


def compile_c(source: Path, out: Path, flags: tuple[str, ...] = ()) -> Path:
    """Compiles a module as `opgraft build` does; the file is replaced whole."""
    part = out.with_suffix(".part.so")
    subprocess.run(
        [os.environ.get("CC", "cc"), "-std=c11", "-O2", "-Wall", "-Wextra",
         "-Werror", "-fPIC", "-shared", "-fvisibility=hidden",
         f"-I{include_dir()}", f"-I{source.parent}", *flags, str(source),
         "-o", str(part), "-lm"],
        check=True,
    )
    part.replace(out)
    return out


@pytest.fixture(scope="session")
def build(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """build(path) -> path of the module; the same source is built once."""
    folder = tmp_path_factory.mktemp("modules")
    made: dict[str, Path] = {}

    def one(source: str | Path, flags: tuple[str, ...] = ()) -> Path:
        path = Path(source)
        path = path if path.is_absolute() else ROOT / path
        key = hashlib.sha256(f"{path}{flags}".encode()).hexdigest()[:12]
        if key not in made:
            made[key] = compile_c(path, folder / f"{path.stem}_{key}.so", flags)
        return made[key]

    return one


@pytest.fixture
def write_module(tmp_path: Path) -> Callable[..., Path]:
    """write_module(text, name) -> a module from source text, built anew."""

    def one(text: str, name: str = "module") -> Path:
        source = tmp_path / f"{name}.c"
        source.write_text(text)
        return compile_c(source, tmp_path / f"{name}.so")

    return one


@pytest.fixture(scope="session")
def basics(build: Callable[..., Path]) -> Any:
    import opgraft

    return opgraft.load(build("tests/python/basics.c"))


@pytest.fixture(scope="session")
def linear(build: Callable[..., Path]) -> Any:
    import opgraft

    return opgraft.load(build("examples/custom_linear/custom_linear.c"))
