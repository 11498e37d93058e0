# SPDX-License-Identifier: Apache-2.0
"""What hosts/tensorflow exports from a shared object."""

from __future__ import annotations

import ctypes

from tensorflow.python.framework import op_def_registry

from .._base.shared import TEXT_BYTES, SharedObject


class File(SharedObject):
    """The functions that hosts/tensorflow exports."""

    def __init__(self, path: str, digest: str) -> None:
        self.digest = digest
        super().__init__(path, path, "tensorflow", "TensorFlow")
        op, size, text = ctypes.c_int32, ctypes.c_size_t, ctypes.c_char_p
        count, words = ctypes.c_int64, ctypes.POINTER(ctypes.c_int64)
        self._register = self.function(
            "opgraft_tensorflow_register", op, op, text, text, size)
        self._infer = self.function(
            "opgraft_tensorflow_infer", count, op, words, count, words, count,
            text, size)

    def infer(self, op: int, words: list[int]) -> list[int]:
        """The words of the results of a call: see hosts/tensorflow/node.h."""
        given = (ctypes.c_int64 * len(words))(*words)
        text = ctypes.create_string_buffer(TEXT_BYTES)
        room = 256
        while True:
            out = (ctypes.c_int64 * room)()
            count: int = self._infer(
                op, given, len(words), out, room, text, TEXT_BYTES)
            if count < 0:
                raise ValueError(text.value.decode())
            if count <= room:
                return list(out[:count])
            room = count

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
