# SPDX-License-Identifier: Apache-2.0
"""A shared object with the JAX adapter (hosts/jax), and its operators."""

from __future__ import annotations

import os
import threading

import jax

from .._base.shared import content
from ._file import File
from ._operator import Operator

OLDEST = (0, 8, 1)  # of JAX
_lock = threading.Lock()
_modules: dict[str, Module] = {}  # by the hash of the file


class Module:
    """A loaded file; its operators are attributes.

    AttributeError for an operator that it lacks.

        >>> m = opgraft.jax.load("softcap.so")
        >>> m.name
        'softcap'
        >>> jax.grad(lambda x: m.softcap(x).sum())(jnp.array([0, 1000], jnp.float32))
        Array([1., 0.], dtype=float32)
    """

    def __init__(self, file: File) -> None:
        self._file = file
        self._operators: dict[str, Operator] = {}
        self._missing: dict[str, str] = {}
        for i in range(file.count):
            self._add(i)

    def _add(self, index: int) -> None:
        operator = Operator(self.__getattr__, self._file, index)
        limit = self._file.limit(index)
        if limit is not None:
            self._missing[operator.name] = limit
            return
        operator.target = self._file.register(index, operator.name)
        self._operators[operator.name] = operator

    @property
    def name(self) -> str:
        """The module's name, as OG_MODULE has it."""
        return self._file.name

    def __getattr__(self, name: str) -> Operator:
        operators = self.__dict__.get("_operators", {})
        missing = self.__dict__.get("_missing", {})
        if name in operators:
            return operators[name]
        if name in missing:
            raise AttributeError(
                f"{name} is not offered in JAX: {missing[name]}")
        raise AttributeError(
            f"module {self._file.name} has no operator {name!r}; it has "
            f"{', '.join(operators)}")

    def __getitem__(self, name: str) -> Operator:
        """An operator by its full name, "f.overload" too."""
        return self.__getattr__(name)

    def __dir__(self) -> list[str]:
        return sorted(self._operators)

    def __repr__(self) -> str:
        return f"<opgraft.jax module {self.name} of {self._file.path}>"


def load(path: str | os.PathLike[str]) -> Module:
    """The operators of a shared object that was built with `--hosts jax`. A
    file with the content of a loaded one gives that module again.

    ImportError where the file cannot be loaded, or was built without the host.

        >>> m = opgraft.jax.load("softcap.so")
        >>> jax.jit(m.softcap)(jnp.array([-100, 0, 100], jnp.float32))
        Array([-29.92..., 0. , 29.92...], dtype=float32)
    """
    if jax.__version_info__ < OLDEST:
        raise ImportError(
            f"opgraft.jax needs JAX {'.'.join(map(str, OLDEST))} or newer, found {jax.__version__}")
    place = os.path.realpath(path)
    found, digest = content(place)
    with _lock:
        if digest not in _modules:
            _modules[digest] = Module(File(place, found, digest))
        return _modules[digest]
