# SPDX-License-Identifier: Apache-2.0
"""What hosts/jax exports from a shared object."""

from __future__ import annotations

import ctypes
import os
import tempfile

import jax

from .._base import hosted

_targets: set[str] = set()  # names that XLA has


class File(hosted.File):
    """The functions that hosts/jax exports."""

    def __init__(self, path: str, content: bytes, digest: str) -> None:
        # The system gives a process the first object of a path for good. A
        # copy has a path and an inode of its own for as long as it is mapped.
        with tempfile.TemporaryDirectory(prefix="opgraft-") as folder:
            copy = os.path.join(folder, os.path.basename(path))
            with open(copy, "wb") as out:
                out.write(content)
            super().__init__(copy, path, digest, "jax", "JAX")
        self._handler = self.function(
            "opgraft_jax_handler", ctypes.c_void_p, ctypes.c_int32)

    def register(self, op: int, name: str) -> str:
        """Makes the operator's handler known to XLA; the target's name. It is
        that of module and operator, which programs that were exported look
        for; a second file of one name has its hash in the target."""
        target = f"{self.name}.{name}"
        if target in _targets:
            target = f"{target}.{self.digest[:12]}"
        _targets.add(target)
        address = ctypes.c_void_p(self._handler(op))
        jax.ffi.register_ffi_target(
            target, jax.ffi.pycapsule(address), platform="cpu")
        return target
