# SPDX-License-Identifier: Apache-2.0
"""A shared object with the TensorFlow adapter (hosts/tensorflow), and its
operators."""

from __future__ import annotations

import os
import threading

from .._base.shared import content, unchanged
from ._file import File
from ._operator import Operator

_lock = threading.Lock()
_modules: dict[str, Module] = {}  # by the hash of the file


class Module:
    """A loaded file; its operators are attributes.

    AttributeError for an operator that it lacks.

        >>> m = opgraft.tensorflow.load("softcap.so")
        >>> m.name
        'softcap'
        >>> x = tf.constant([0.0, 1000.0])
        >>> with tf.GradientTape() as tape:
        ...     tape.watch(x)
        ...     y = tf.reduce_sum(m.softcap(x))
        >>> tape.gradient(y, x).numpy().tolist()
        [1.0, 0.0]
    """

    def __init__(self, file: File) -> None:
        self._file = file
        self._operators: dict[str, Operator] = {}
        self._missing: dict[str, str] = {}
        for i in range(file.count):
            operator = Operator(self.__getattr__, file, i)
            limit = file.limit(i)
            if limit is not None:
                self._missing[operator.name] = limit
                continue
            operator.register()
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
                f"{name} is not offered in TensorFlow: {missing[name]}")
        raise AttributeError(
            f"module {self._file.name} has no operator {name!r}; it has "
            f"{', '.join(operators)}")

    def __getitem__(self, name: str) -> Operator:
        """An operator by its full name, "f.overload" too."""
        return self.__getattr__(name)

    def __dir__(self) -> list[str]:
        return sorted(self._operators)

    def __repr__(self) -> str:
        return f"<opgraft.tensorflow module {self.name} of {self._file.path}>"


def load(path: str | os.PathLike[str]) -> Module:
    """The operators of a shared object that was built with `--hosts
    tensorflow`. A file with the content of a loaded one gives that module
    again.

    ImportError where the file cannot be loaded, or was built without the host.

        >>> m = opgraft.tensorflow.load("softcap.so")
        >>> tf.function(m.softcap)(tf.constant([0.0, 100.0])).numpy().round(2)
        array([ 0.  , 29.92], dtype=float32)
    """
    place = unchanged(path)
    digest = content(place)[1]
    with _lock:
        if digest not in _modules:
            _modules[digest] = Module(File(place, digest))
        return _modules[digest]
