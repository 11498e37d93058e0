# SPDX-License-Identifier: Apache-2.0
"""What hosts/jax exports from a shared object."""

from __future__ import annotations

import ctypes

import jax

_targets: set[str] = set()  # names that XLA has
_TEXT_BYTES = 1024


class File:
    """The functions that hosts/jax exports."""

    def __init__(self, path: str, digest: str) -> None:
        self.path = path
        self.digest = digest
        try:
            self.object = ctypes.CDLL(path)
        except OSError as error:
            raise ImportError(f"{path}: could not be loaded: {error}") from None
        if not hasattr(self.object, "opgraft_limit_jax"):
            raise ImportError(
                f"{path}: does not serve JAX; build it with "
                "`opgraft build FILE.c --hosts jax`"
            )
        self._declare()
        text = ctypes.create_string_buffer(_TEXT_BYTES)
        self.count: int = self.object.opgraft_jax_open(text, _TEXT_BYTES)
        if self.count < 0:
            raise ImportError(f"{path}: {text.value.decode()}")
        self.name: str = self.object.opgraft_jax_name().decode()

    def _declare(self) -> None:
        op, size, text = ctypes.c_int32, ctypes.c_size_t, ctypes.c_char_p
        count, words = ctypes.c_int64, ctypes.POINTER(ctypes.c_int64)
        for name, result, arguments in (
            ("opgraft_jax_open", ctypes.c_int32, [text, size]),
            ("opgraft_jax_name", text, []),
            ("opgraft_jax_describe", size, [op, text, size]),
            ("opgraft_jax_handler", ctypes.c_void_p, [op]),
            ("opgraft_jax_infer", count,
             [op, words, count, words, count, text, size]),
            ("opgraft_limit_jax", text, [op]),
        ):
            function = getattr(self.object, name)
            function.restype = result
            function.argtypes = arguments

    def describe(self, op: int) -> str:
        size = self.object.opgraft_jax_describe(op, None, 0)
        text = ctypes.create_string_buffer(size + 1)
        self.object.opgraft_jax_describe(op, text, size + 1)
        return text.value.decode()

    def limit(self, op: int) -> str | None:
        text: bytes | None = self.object.opgraft_limit_jax(op)
        return None if text is None else text.decode()

    def infer(self, op: int, words: list[int]) -> list[int]:
        """The words of the results of a call: see hosts/jax/query.c."""
        given = (ctypes.c_int64 * len(words))(*words)
        text = ctypes.create_string_buffer(_TEXT_BYTES)
        room = 256
        while True:
            out = (ctypes.c_int64 * room)()
            count: int = self.object.opgraft_jax_infer(
                op, given, len(words), out, room, text, _TEXT_BYTES)
            if count < 0:
                raise ValueError(text.value.decode())
            if count <= room:
                return list(out[:count])
            room = count

    def register(self, op: int, name: str) -> str:
        """Makes the operator's handler known to XLA; the target's name. It is
        that of module and operator, which programs that were exported look
        for; a second file of one name has its hash in the target."""
        target = f"{self.name}.{name}"
        if target in _targets:
            target = f"{target}.{self.digest[:12]}"
        _targets.add(target)
        address = ctypes.c_void_p(self.object.opgraft_jax_handler(op))
        jax.ffi.register_ffi_target(
            target, jax.ffi.pycapsule(address), platform="cpu")
        return target
