# SPDX-License-Identifier: Apache-2.0
"""What JAX and TensorFlow share: a file with an adapter of hosts/ that infers
results (hosts/shared/packed.h), its operators, and their module. Imports no host.

A host derives File (register), Operator (call) and Module (host, title,
operator) and calls Module.once.
"""

from __future__ import annotations

import ctypes
import threading
from typing import Any, Callable, ClassVar, Iterator, TypeVar

from . import dtypes, words
from .shared import TEXT_BYTES, SharedObject
from .tables import Description
from .values import bind

Kind = tuple[str, tuple[Any, ...]]  # a declaration's name of the type, the sizes
AnyModule = TypeVar("AnyModule", bound="Module")


class File(SharedObject):
    """The functions that the host's adapter exports."""

    def __init__(self, mapped: str, path: str, digest: str, host: str,
                 title: str) -> None:
        self.digest = digest
        super().__init__(mapped, path, host, title)
        count, given = ctypes.c_int64, ctypes.POINTER(ctypes.c_int64)
        self._infer = self.function(
            f"opgraft_{host}_infer", count, ctypes.c_int32, given, count,
            given, count, ctypes.c_char_p, ctypes.c_size_t)

    def infer(self, op: int, call: list[int]) -> list[int]:
        """The words of the results of a call; ValueError where it is wrong."""
        given = (ctypes.c_int64 * len(call))(*call)
        text = ctypes.create_string_buffer(TEXT_BYTES)
        room = 256
        while True:
            out = (ctypes.c_int64 * room)()
            count: int = self._infer(
                op, given, len(call), out, room, text, TEXT_BYTES)
            if count < 0:
                raise ValueError(text.value.decode())
            if count <= room:
                return list(out[:count])
            room = count

    def register(self, op: int, name: str) -> str:
        """Makes an operator known to the host; its name there."""
        raise NotImplementedError


class Operator:
    """Call it with what the host has as tensors."""

    host: ClassVar[str]
    node = ""  # the host's name for it

    def __init__(self, find: Callable[[str], Any], file: Any, index: int
                 ) -> None:
        self._find = find  # an operator of the same module
        self._file = file
        self._index = index
        self.description = d = Description(file.describe(index))
        self.name = self.__name__ = d.name
        self.__doc__ = d.tables["doc"] or d.tables["schema"]
        self._tensors = [i for i, p in enumerate(d.params)
                         if p["tensor"] is not None]
        self._attrs = [i for i, p in enumerate(d.params)
                       if p["attr"] is not None]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.call(bind(self.description, args, kwargs))

    def __repr__(self) -> str:
        return (f"<opgraft.{self.host} operator "
                f"{self.description.tables['schema']}>")

    def call(self, values: list[Any]) -> Any:
        """The results of a call with a value for each parameter."""
        raise NotImplementedError

    def register(self) -> None:
        """Makes the operator known to the host."""
        self.node = self._file.register(self._index, self.name)

    # --- Tensors and results ---

    def _array(self, param: int, value: Any, convert: Callable[[Any], Any]
               ) -> Any:
        """The host's tensor of an argument; a list of them for a list."""
        if value is None:
            return None
        if self.description.params[param]["list"]:
            return [None if v is None else convert(v) for v in value]
        return convert(value)

    def _given(self, tensors: Any) -> Iterator[tuple[int, Any]]:
        """Each tensor that is given, and the parameter that it is for."""
        for i, value in zip(self._tensors, tensors):
            for entry in value if isinstance(value, list) else [value]:
                if entry is not None:
                    yield i, entry

    def _check_type(self, param: int, kind: Kind) -> None:
        if kind[0] not in dtypes.CODES:
            raise TypeError(
                f"{self.name}: {self.description.params[param]['name']} is "
                f"{kind[0]}, a type that no declaration has")

    def _infer(self, call: Any, kinds: Any) -> list[Any]:
        """Type and sizes of each fresh result, a list for a list. `call` has
        the words of words.pack, `kinds` each given tensor."""
        given = list(call)
        for name, sizes in kinds:
            given += [*dtypes.CODES[name], len(sizes), *sizes]
        out = iter(self._file.infer(self._index, given))

        def one() -> Kind:
            code, bits, rank = (next(out) for _ in range(3))
            name = dtypes.dtype_name(dtypes.numpy_name(code, bits))
            return name, tuple(next(out) for _ in range(rank))

        return [[one() for _ in range(next(out))] if r["list"] else one()
                for r in self.description.fresh]

    def _pack(self, tensors: Any, attrs: Any) -> list[int]:
        return words.pack(self.description, list(tensors), list(attrs))

    def _arrange(self, fresh: list[Any], out: Iterator[Any],
                 written: list[int]) -> Any:
        """Fresh results, then each written argument's new value."""
        values: list[Any] = [
            [next(out) for _ in r] if isinstance(r, list) else next(out)
            for r in fresh]
        values += [next(out) if i in written else None
                   for i in self.description.mutated]
        return values[0] if len(values) == 1 else tuple(values)

    # --- Gradients ---

    def _place(self, result: int) -> int:
        """Where the results of a call have a declared one."""
        d = self.description
        alias = d.results[result]["alias"]
        if alias is None:
            return d.fresh.index(d.results[result])
        return len(d.fresh) + d.mutated.index(alias)

    def _no_gradient(self) -> str | None:
        """Why there is none."""
        kind = self.description.tables["grad"]["kind"]
        if kind == "derived":
            return (f"{self.name}: is a derived gradient; its own is not made "
                    "in this host")
        if kind != "missing":
            return None
        return (f"{self.name}: has no gradient; declare .backward in its C "
                "file, \"none\" where the gradient is zero")

    def _gradients(self, param: Callable[[int], Any],
                   result: Callable[[int], Any],
                   gradient: Callable[[int], Any]) -> dict[int, Any]:
        """The backward operator's results, by parameter. Its arguments are
        asked for: a parameter's value, a result and the gradient of one, these
        by their place among the results."""
        grad = self.description.tables["grad"]
        values: list[Any] = []
        for s in grad["args"]:
            if s["source"] == "needs":
                values.append(True)
            elif s["source"] == "param":
                values.append(param(s["param"]))
            else:
                ask = gradient if s["source"] == "grad" else result
                values.append(ask(self._place(s["result"])))
        other = self._find(grad["op"])
        values += other.description.defaults[len(values):]
        out = other.call(values)
        return dict(zip(grad["targets"],
                        out if isinstance(out, tuple) else (out,)))


class Module:
    """A loaded file; its operators are attributes."""

    host: ClassVar[str]
    title: ClassVar[str]
    operator: ClassVar[type[Operator]]
    _lock: ClassVar[threading.Lock]
    _loaded: ClassVar[dict[str, Any]]  # by the hash of the file

    def __init_subclass__(cls) -> None:
        cls._lock, cls._loaded = threading.Lock(), {}

    def __init__(self, file: File) -> None:
        self._file = file
        self._operators: dict[str, Any] = {}
        self._missing: dict[str, str] = {}
        for i in range(file.count):
            operator = self.operator(self.__getattr__, file, i)
            limit = file.limit(i)
            if limit is not None:
                self._missing[operator.name] = limit
                continue
            operator.register()
            self._operators[operator.name] = operator

    @classmethod
    def once(cls: type[AnyModule], digest: str, file: Callable[[], File]
             ) -> AnyModule:
        """The module of a file's content, opened where it is not loaded."""
        with cls._lock:
            if digest not in cls._loaded:
                cls._loaded[digest] = cls(file())
            found: AnyModule = cls._loaded[digest]
            return found

    @property
    def name(self) -> str:
        """The module's name, as OG_MODULE has it."""
        return self._file.name

    def __getattr__(self, name: str) -> Any:
        operators = self.__dict__.get("_operators", {})
        missing = self.__dict__.get("_missing", {})
        if name in operators:
            return operators[name]
        if name in missing:
            raise AttributeError(
                f"{name} is not offered in {self.title}: {missing[name]}")
        raise AttributeError(
            f"module {self._file.name} has no operator {name!r}; it has "
            f"{', '.join(operators)}")

    def __getitem__(self, name: str) -> Any:
        """An operator by its full name, "f.overload" too."""
        return self.__getattr__(name)

    def __dir__(self) -> list[str]:
        return sorted(self._operators)

    def __repr__(self) -> str:
        return (f"<opgraft.{self.host} module {self.name} of "
                f"{self._file.path}>")


