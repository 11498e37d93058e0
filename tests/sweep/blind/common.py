# SPDX-License-Identifier: Apache-2.0
"""What the cases of the blind sweep share: a case, and how C is built."""

from __future__ import annotations

import atexit
import functools
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

Results = Any
Args = tuple[Any, ...]


def no_kwargs(_k: int) -> dict[str, Any]:
    """A call without keyword arguments."""
    return {}


@dataclass
class Case:
    """One callable, how a reader of the page adopts it, and what is right.

    ``args(k)`` makes the arguments of call k (0 or 1) anew each time.
    ``plain`` is the callable as its owner calls it, ``want`` the same
    thing written another way; both work on torch tensors. ``adopt`` gets
    the imported library.
    """

    name: str
    kind: str
    adopt: Callable[[Any], Any]
    args: Callable[[int], Args]
    want: Callable[..., Results]
    plain: Callable[..., Results]
    kwargs: Callable[[int], dict[str, Any]] = no_kwargs
    grad: str = ""  # "auto": autograd of want, "fd": differences of plain
    vmap: Callable[[], tuple[Args, Any]] | None = None
    custom: Callable[[Any], str] | None = None  # "" or what is wrong
    mutates: bool = False
    needs: tuple[str, ...] = ()


def rng(seed: int) -> torch.Generator:
    """A generator of its own for each call."""
    return torch.Generator().manual_seed(seed)


def randn(
    seed: int, *shape: int, dtype: torch.dtype = torch.float32
) -> torch.Tensor:
    """Normal numbers, the same for the same seed."""
    made = torch.randn(shape, generator=rng(seed), dtype=torch.float64)
    return made.to(dtype)


def rand(
    seed: int, *shape: int, dtype: torch.dtype = torch.float32
) -> torch.Tensor:
    """Uniform numbers, the same for the same seed."""
    made = torch.rand(shape, generator=rng(seed), dtype=torch.float64)
    return made.to(dtype)


def ints(
    seed: int, high: int, *shape: int, dtype: torch.dtype = torch.int64
) -> torch.Tensor:
    """Integers from 0 to high - 1, the same for the same seed."""
    return torch.randint(0, high, shape, generator=rng(seed), dtype=dtype)


@functools.cache
def folder() -> Path:
    """A temporary folder that goes with the process."""
    made = Path(tempfile.mkdtemp(prefix="adopt_blind_"))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


@functools.cache
def build_c(source: str, name: str) -> str:
    """Build a shared library of C, and say where it is."""
    path = folder() / f"{name}.c"
    path.write_text(source)
    out = folder() / f"lib{name}.so"
    subprocess.run(
        ["cc", "-O1", "-shared", "-fPIC", str(path), "-o", str(out), "-lm"],
        check=True,
    )
    return str(out)


@functools.cache
def build_pybind(source: str, name: str) -> Any:
    """Build a pybind11 module, and import it."""
    import pybind11  # noqa: PLC0415

    path = folder() / f"{name}.cpp"
    path.write_text(source)
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    out = folder() / f"{name}{suffix}"
    subprocess.run(
        [
            *("c++", "-O0", "-std=c++17", "-shared", "-fPIC"),
            f"-I{pybind11.get_include()}",
            f"-I{sysconfig.get_paths()['include']}",
            *(str(path), "-o", str(out)),
        ],
        check=True,
    )
    sys.path.insert(0, str(folder()))
    return __import__(name)
