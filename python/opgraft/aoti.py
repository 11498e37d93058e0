# SPDX-License-Identifier: Apache-2.0
"""Operators of a module in packages of AOTInductor, called from C.

    m = opgraft.aoti.load("scale.so")   # opgraft build scale.c --hosts aoti
    torch._inductor.aoti_compile_and_package(
        exported, package_path="model.pt2", inductor_configs=m.configs())

The package's code calls aoti_torch_cpu_NAME, or aoti_torch_opgraft_into_NAME
with memory that AOTInductor planned, which the file exports: whoever
runs the package loads the file first, into the global scope. `load` does; a C
program calls dlopen("scale.so", RTLD_NOW | RTLD_GLOBAL).
"""

from __future__ import annotations

import ctypes
import os
from typing import Any

import torch

from ._base.shared import SharedObject, unchanged
from ._base.tables import Description
from ._load.module import load as _load

__all__ = ["Module", "load"]

DECLARATION_BYTES = 1 << 14


class Module:
    """A file with the AOTInductor adapter (hosts/aoti); ImportError where it
    was built without.

        >>> m = opgraft.aoti.load("softcap.so")
        >>> m.configs()["aot_inductor.custom_ops_to_c_shims"]
        {<OpOverload(op='softcap.softcap', ...)>: ['AOTITorchError aoti_torch_cpu_softcap(...
    """

    def __init__(self, path: str) -> None:
        self.path = path
        file = SharedObject(path, path, "aoti", "AOTInductor")
        self.module = _load(path)
        """The operators as torch has them."""
        self.shims: dict[Any, list[str]] = {}
        """The declarations of each operator's C functions."""
        self.missing: dict[str, str] = {}
        """Operators that are not offered, and why; packages call them by
        PyTorch's proxy executor."""
        space = getattr(torch.ops, self.module.namespace)
        words = [
            file.function(f"opgraft_aoti_{name}", ctypes.c_size_t,
                          ctypes.c_int32, ctypes.c_char_p, ctypes.c_size_t)
            for name in ("declaration", "into")]
        for i in range(file.count):
            d = Description(file.describe(i))
            limit = file.limit(i) or _taken(d.base_name, path)
            if limit is not None:
                self.missing[d.name] = limit
                continue
            text = ctypes.create_string_buffer(DECLARATION_BYTES)
            packet = getattr(space, d.base_name)
            self.shims[packet.default] = [
                text.value.decode() for one in words
                if one(i, text, DECLARATION_BYTES)]
        # For the code of packages.
        ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)

    def configs(self) -> dict[str, Any]:
        """For aoti_compile_and_package(inductor_configs=...)."""
        return {"aot_inductor.custom_ops_to_c_shims": self.shims}


_paths: dict[str, str] = {}  # of the file whose function a name is


def _taken(name: str, path: str) -> str | None:
    """Code finds a name in libtorch, which has such functions for operators of
    its own, and then in the file that was loaded first."""
    libtorch = ctypes.CDLL("libtorch_cpu.so", mode=os.RTLD_NOLOAD)
    if hasattr(libtorch, f"aoti_torch_cpu_{name}"):
        return "libtorch has a function of its name; give the operator another"
    first = _paths.setdefault(name, path)
    return None if first == path else (
        f"{first} has an operator of its name, and packages call that one; "
        "give the operator another")


def load(path: str | os.PathLike[str]) -> Module:
    """The operators of a shared object that was built with `--hosts aoti`.
    ImportError where the file has changed since this process loaded it.

        >>> m = opgraft.aoti.load("softcap.so")
        >>> m.missing
        {}
    """
    return Module(unchanged(path))
