# SPDX-License-Identifier: Apache-2.0
"""Adoptions from a file: whole libraries and modules, by a few lines of YAML.

    library: libz.so.1          # or tvm:, module:, torch:
    operators:
      crc32:
        prototype: unsigned long crc32(unsigned long, const unsigned char *, unsigned int)
        call: 0, x.data, x.numel
        returns: out
        shape: "x[*N] -> []"
        dtype: "x: u8 -> i64"

`opgraft adopt FILE` reads the same, says what it made, and checks it.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any, Callable, Iterator

import torch

from .._base.counted import counted
from .._check import Report, check
from . import adopted, build
from .gen import _SpecError, tree_of_file
from .maps import shown

_SOURCES = ("library", "tvm", "module", "torch")
_TOP = (*_SOURCES, "namespace", "operators")
_TEXTS = ("schema", "shape", "dtype", "where", "strides", "inplace",
          "prototype", "call", "grid", "returns", "batch", "doc", "expect",
          "backward")
_FIELDS = (*_TEXTS, "flags", "function")


class Adoption:
    """What a file or a table adopted: operators by name, as attributes.

    As a context manager it takes them back at its end.

        >>> adoption = opgraft.adopt_spec("zlib.yaml")
        >>> adoption
        <adopted zlib.yaml (1 operator)>
        >>> adoption.crc32(torch.zeros(4, dtype=torch.uint8))
        tensor(558161692)
        >>> [bool(report) for report in adoption.check(calls=4)]
        [True]
        >>> adoption.unadopt()
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.functions: dict[str, Callable[..., Any]] = {}
        self.undo: list[Callable[[], None]] = []

    def __getattr__(self, name: str) -> Callable[..., Any]:
        functions = self.__dict__.get("functions", {})
        if name in functions:
            return functions[name]
        raise AttributeError(
            f"{self.__dict__.get('name')} adopts no {name!r}; it has "
            f"{', '.join(sorted(functions)) or 'nothing'}")

    def __iter__(self) -> Iterator[str]:
        return iter(self.functions)

    def __repr__(self) -> str:
        return (f"<adopted {self.name} ("
                f"{counted(len(self.functions), 'operator')})>")

    def check(self, **options: Any) -> list[Report]:
        """opgraft.check of each operator."""
        return [check(f, **options) for f in self.functions.values()
                if not _is_torch(f)]

    def unadopt(self) -> None:
        """Takes the operators out of torch, and puts back what stood in their
        places. What is held elsewhere still works; once it is dropped, the
        libraries go."""
        for undo in reversed(self.undo):
            undo()
        self.undo.clear()
        for function in self.functions.values():
            if _is_torch(function) or adopted.is_adopted(function):
                build.unadopt(function)
        self.functions = {}

    def __enter__(self) -> "Adoption":
        return self

    def __exit__(self, *error: Any) -> None:
        self.unadopt()


def _is_torch(function: Any) -> bool:
    return isinstance(function, torch._ops.OpOverload)


def adopt_spec(path: str | os.PathLike[str]) -> Adoption:
    """Adopts what a YAML file lists, all of it or nothing.

    ValueError says file, line and what is wrong there.

    OSError where the file cannot be read.

        >>> with opgraft.adopt_spec("zlib.yaml") as zlib:
        ...     print(list(zlib), zlib.crc32(torch.zeros(4, dtype=torch.uint8)))
        ['crc32'] tensor(558161692)
    """
    where = os.fspath(path)
    try:
        tree = tree_of_file(where)
    except _SpecError as error:
        raise ValueError(str(error)) from None
    out = Adoption(Path(where).name)
    parts = tree[2] if tree[0] == "list" else [tree]
    try:
        for part in parts:
            _adopt_part(_Reader(where), part, out)
    except BaseException:
        out.unadopt()
        raise
    return out


class _Reader:
    """Nodes as values; errors with file and line."""

    def __init__(self, path: str) -> None:
        self.path = path

    def error(self, line: int, text: str) -> ValueError:
        return ValueError(f"{self.path}:{line}: {text}")

    def map(self, node: Any, what: str, keys: tuple[str, ...] | None
            ) -> dict[str, Any]:
        if node[0] != "map":
            raise self.error(node[1], f"{what} is a {node[0]}, expected a map")
        for key, value in node[2]:
            if keys is not None and key not in keys:
                raise self.error(value[1], f"'{key}' means nothing here; "
                                           f"expected {', '.join(keys)}")
        return dict(node[2])

    def text(self, node: Any, what: str) -> str:
        if node[0] != "text":
            raise self.error(node[1], f"{what} is a {node[0]}, expected text")
        return str(node[2])


def _adopt_part(read: _Reader, node: Any, out: Adoption) -> None:
    top = read.map(node, "the specification", _TOP)
    sources = [s for s in _SOURCES if s in top]
    if len(sources) != 1 or "operators" not in top:
        raise read.error(node[1], f"found {', '.join(top) or 'nothing'}, "
                                  f"expected one of {', '.join(_SOURCES)}, "
                                  "and operators")
    kind = sources[0]
    source = read.text(top[kind], kind)
    space = read.text(top["namespace"], "namespace") if (
        "namespace" in top) else None
    try:
        find = _FIND[kind](_located(read.path, source))
    except Exception as error:  # importing runs what stands there
        raise read.error(top[kind][1], _said(error)) from error
    for name, entry in read.map(top["operators"], "operators", None).items():
        try:
            made = _adopt_one(read, find, name, entry, space)
        except (ValueError, TypeError, RuntimeError, AttributeError,
                ImportError) as error:
            if str(error).startswith(f"{read.path}:"):
                raise
            raise read.error(entry[1], _said(error)) from error
        if name in out.functions:
            raise read.error(entry[1], f"'{name}' is adopted twice")
        out.functions[name] = made


def _adopt_one(
    read: _Reader, find: Callable[[str], tuple[Any, dict[str, Any]]],
    name: str, node: Any, space: str | None,
) -> Callable[..., Any]:
    fields = read.map(node, name, _FIELDS)
    given: dict[str, Any] = {f: read.text(fields[f], f) for f in _TEXTS if f in fields}
    if "flags" in fields:
        flags = fields["flags"]
        listed = flags[2] if flags[0] == "list" else [flags]
        given["flags"] = [read.text(f, "flags") for f in listed]
    if ":" in given.get("backward", ""):
        given["backward"] = _function_at(given["backward"])
    what = read.text(fields["function"], "function") if (
        "function" in fields) else name
    fn, more = find(what)
    prototype = given.get("prototype")
    if fn is None:
        if prototype is None:
            raise ValueError(f"{name}: expected a prototype: "
                             f"\"void {name}(float "
                             '*out, const float *x, int64_t n)"')
        fn = given.pop("prototype")
    if "schema" not in given or space is not None:
        more["name"] = f"{space}::{name}" if space else name
    if _is_packet(fn):
        more.pop("name", None)
    return build.adopt(fn, **given, **more)


def _said(error: Exception) -> str:
    """Its text, whose first line is not empty."""
    return str(error) if str(error).strip() else type(error).__name__


def _is_packet(fn: Any) -> bool:
    return isinstance(fn, (torch._ops.OpOverload, torch._ops.OpOverloadPacket))


def _function_at(text: str) -> Any:
    module, _, name = text.partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except Exception as error:  # importing runs what stands there
        raise ValueError(f"backward is {shown(text)}, expected a map or a "
                         f"function as module:name: {_said(error)}") from error


def _located(spec: str, source: str) -> str:
    """Paths are from the file's folder; a name without one is the loader's."""
    if os.sep not in source:
        return source
    return str((Path(spec).resolve().parent / source).resolve())


# --- Where functions come from ------------------------------------------------------

_Find = Callable[[str], "tuple[Any, dict[str, Any]]"]


def _library(path: str) -> _Find:
    from .libraries import library

    held = library(path)
    return lambda name: (None, {"library": held})


def _tvm(path: str) -> _Find:
    import tvm_ffi

    module = tvm_ffi.load_module(path)

    def find(name: str) -> tuple[Any, dict[str, Any]]:
        try:
            return module.get_function(name), {}
        except (AttributeError, ValueError) as error:
            raise AttributeError(
                f"{path} has no TVM-FFI function {name}; `nm -D {path}` lists "
                "__tvm_ffi_ and its name") from error

    return find


def _module(name: str) -> _Find:
    module = importlib.import_module(name)
    return lambda what: (getattr(module, what), {})


def _torch(name: str) -> _Find:
    space = getattr(torch.ops, name)

    def find(what: str) -> tuple[Any, dict[str, Any]]:
        if not hasattr(space, what):
            raise AttributeError(
                f"torch.ops.{name} has no operator {what}; import what "
                "registers it first (a module: part may)")
        return getattr(space, what), {}

    return find


_FIND: dict[str, Callable[[str], _Find]] = {
    "library": _library, "tvm": _tvm, "module": _module, "torch": _torch}


# --- The command line ---------------------------------------------------------------


def _facts(name: str, f: Callable[..., Any]) -> dict[str, Any]:
    if _is_torch(f):
        return {"op": name, "schema": str(f._schema),  # type: ignore[attr-defined]
                "calls": "what it called; completed, and not tried here: "
                         "torch.library.opcheck does"}
    m = adopted.module_of(f)
    d = next(iter(m._descriptions.values()))
    return {"op": name, "schema": f"{m.namespace}::{d.tables['schema']}",
            "shape": _shape_text(d.tables),
            "calls": "Python" if m._calls_python(d) else
                     "C, without Python"}


def _shape_text(tables: dict[str, Any]) -> str:
    left, right = (", ".join(p["text"] for p in tables[key])
                   for key in ("patterns", "shapes"))
    return f"{left} -> {right}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="opgraft adopt", description=__doc__)
    parser.add_argument("file")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--torch", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    sys.path.insert(0, os.getcwd())  # of the modules that it names
    try:
        made = adopt_spec(options.file)
    except (ValueError, OSError) as error:
        print(f"opgraft: {error}", file=sys.stderr)
        return 2
    facts = [_facts(n, f) for n, f in made.functions.items()]
    reports = made.check(seed=options.seed, torch=options.torch) if (
        options.check) else []
    if options.json:
        print(json.dumps({"operators": facts,
                          "checks": [json.loads(r.json()) for r in reports]}))
    else:
        for fact in facts:
            print(fact["schema"])
            if "shape" in fact:
                print(f"  shape {fact['shape']}")
            print(f"  calls {fact['calls']}")
        for report in reports:
            print(report)
    return 0 if all(reports) else 1


if __name__ == "__main__":
    sys.exit(main())
