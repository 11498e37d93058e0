# SPDX-License-Identifier: Apache-2.0
"""What hosts/tensorflow exports from a shared object."""

from __future__ import annotations

import ctypes

from tensorflow.python.framework import op_def_registry

from .._base import hosted
from .._base.shared import TEXT_BYTES


class File(hosted.File):
    """The functions that hosts/tensorflow exports."""

    def __init__(self, path: str, digest: str) -> None:
        super().__init__(path, path, digest, "tensorflow", "TensorFlow")
        text = ctypes.c_char_p
        self._register = self.function(
            "opgraft_tensorflow_register", ctypes.c_int32, ctypes.c_int32,
            text, text, ctypes.c_size_t)

    def register(self, op: int, name: str) -> str:
        """TensorFlow's name of the operator. It is that of module and
        operator; a second file of one name has its hash in it."""
        node = f"Og_{self.name}__{name.replace('.', '__')}"
        if op_def_registry.get(node) is not None:
            node = f"{node}__{self.digest[:12]}"
        text = ctypes.create_string_buffer(TEXT_BYTES)
        if self._register(op, node.encode(), text, TEXT_BYTES) != 0:
            raise ImportError(f"{self.path}: {text.value.decode()}")
        return node
