# SPDX-License-Identifier: Apache-2.0
"""Proposals that make the function around a break one opaque call of the graph
(torch's leaf_function), also where it is a method of a module with parameters.

Eager runs of the script tell what the function, and those that call it, take
and give: the shape function is made of that, and a trial holds it against the
truth. The innermost function that takes and gives tensors comes first.
"""

from __future__ import annotations

import ast
import copy
import inspect
import itertools
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import torch

from . import _places, _record, _told
from ._source import (
    Texts,
    first_line,
    replaced,
    segment,
    text_of,
    tree_of,
)

OUTWARD = 4  # callers that may be made opaque in the function's place
_PLAIN = (bool, int, float, str, type(None))


class Around(NamedTuple):
    """A function of a module, or a method of a class there."""

    file: str
    name: str  # "Class.method" or "function"


# --- In the observed run ------------------------------------------------------


def seen(file: str, name: str, fn: Any) -> Any:
    """`fn`, which tells what it was called with, what it gave, and whence."""
    if not inspect.isfunction(fn):
        return _called(file, name, fn)
    signature = inspect.signature(fn)

    def told(call: _told.Call) -> dict[str, Any]:
        bound = signature.bind(*call.args, **call.kwargs).arguments
        callers = _callers()
        return {
            "file": file, "name": name, "callers": callers or [],
            "arguments": {k: _described(v) for k, v in bound.items()
                          if k != "self"},
            "self": isinstance(bound.get("self"), torch.nn.Module),
            "result": _described(call.result),
            "is_plain": callers is not None and call.is_unchanged
            and not _storages(bound) & _storages(call.result),
        }

    call: Any = _told.watched(fn, told)
    call.__name__, call.__qualname__ = fn.__name__, fn.__qualname__
    call.__signature__ = signature
    return call


def _called(file: str, name: str, fn: Any) -> Any:
    """What a decorator made of a function: only whence it is called."""
    if not callable(fn):
        return fn

    def call(*args: Any, **kwargs: Any) -> Any:
        _told.tell({"file": file, "name": name, "callers": _callers() or [],
                    "is_plain": False})
        return fn(*args, **kwargs)

    return call


def _storages(value: Any) -> set[int]:
    return {t.untyped_storage()._cdata for t in _told.tensors(value)
            if t.numel()}


def _described(value: Any) -> Any:
    """A tensor as an object, a sequence as a list; text for what else it is,
    "" where that cannot cross."""
    if isinstance(value, torch.Tensor):
        return {"shape": list(value.shape), "dtype": str(value.dtype),
                "is_dense": value.is_contiguous()}
    if value is None:
        return "None"
    if type(value) in (tuple, list):
        return [type(value).__name__, *map(_described, value)]
    if isinstance(value, _PLAIN):
        return type(value).__name__
    if isinstance(value, dict) and all(map(_described, value.values())):
        return "dict"
    return ""


def _callers() -> list[tuple[str, int]] | None:
    """(file, first line) of the functions on the stack that are neither
    PyTorch's nor ours, innermost first. Not the outermost that is compiled, nor
    what calls it: with it all of the graph would be opaque. None where that is
    the function itself."""
    found: list[tuple[str, int]] = []
    compiled = None
    frame = sys._getframe(2)
    while frame is not None:
        code = frame.f_code
        if _record.is_wrapper(frame):
            compiled = len(found)
        if _places.owner(code.co_filename) not in (
                _places.PYTORCH, _places.PYTHON, "library opgraft"):
            found.append((code.co_filename, code.co_firstlineno))
        frame = frame.f_back  # type: ignore[assignment]
    if compiled == 0:
        return None
    return found if compiled is None else found[:compiled - 1]


# --- What to observe ----------------------------------------------------------


def _functions(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef]]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield node.name, node
        elif isinstance(node, ast.ClassDef):
            for inner in node.body:
                if isinstance(inner, ast.FunctionDef):
                    yield f"{node.name}.{inner.name}", inner


def around(file: str, line: int, texts: Texts) -> Around | None:
    """The function that holds a line."""
    text = text_of(file, texts)
    tree = tree_of(text) if text is not None else None
    for name, node in _functions(tree) if tree else ():
        if first_line(node) <= line <= (node.end_lineno or 0):
            return Around(file, name)
    return None


def observed(wanted: Iterable[Around], texts: Texts) -> dict[str, str]:
    """`texts` in which these functions tell what they are called with."""
    by_file: dict[str, set[str]] = {}
    for file, name in wanted:
        by_file.setdefault(file, set()).add(name)
    out = {}
    for file, names in by_file.items():
        text = text_of(file, texts)
        tree = tree_of(text) if text is not None else None
        if text is None or tree is None:
            continue
        nodes = [(n, f) for n, f in _functions(tree) if n in names]
        for name, node in sorted(nodes, key=lambda of: -of[1].lineno):
            last = node.body[-1]
            text = replaced(text, last, segment(text, last) + "\n"
                            + " " * node.col_offset
                            + f"{node.name} = {_told.source_of(seen)}("
                            f"{file!r}, {name!r}, {node.name})")
        if tree_of(text) is not None:
            out[file] = text
    return out


Told = dict[Around, list[dict[str, Any]]]


def read(path: str) -> Told:
    found: Told = {}
    for told in _told.lines(path):
        found.setdefault(Around(told["file"], told["name"]), []).append(told)
    return found


def outward(told: Told, at: Around, texts: Texts) -> list[Around]:
    """`at`, then what calls it, innermost first."""
    found = [at]
    for call in told.get(at, []):
        for file, line in call["callers"]:
            caller = around(file, line, texts)
            if caller is not None and caller not in found:
                found.append(caller)
    return found[:OUTWARD + 1]


# --- What to propose ----------------------------------------------------------


def proposed(candidates: list[Around], told: Told, texts: Texts
             ) -> Iterator[tuple[str, str, str]]:
    """(title, file, text) for each function that may be one opaque call."""
    if not hasattr(torch._dynamo.decorators, "leaf_function"):
        return
    for at in candidates:
        text = text_of(at.file, texts)
        tree = tree_of(text) if text is not None else None
        node = dict(_functions(tree)).get(at.name) if tree else None
        if text is None or tree is None or node is None \
                or node.decorator_list:
            continue
        result = _result(told.get(at, []), "." in at.name)
        if result is not None:
            is_dense = all(_is_dense(t["result"]) for t in told[at])
            new = _with_leaf(text, tree, node, at.name, result, is_dense)
            yield f"make {at.name} one opaque call of the graph", at.file, new


def _is_dense(described: Any) -> bool:
    if isinstance(described, list):
        return all(map(_is_dense, described[1:]))
    return not isinstance(described, dict) or described["is_dense"]


def _result(calls: list[dict[str, Any]], is_method: bool) -> str | None:
    """The source of what the shape function gives; None where the calls say
    too little, or what cannot be said."""
    if not calls or not all(c["is_plain"] and all(c["arguments"].values())
                            and c["self"] == is_method for c in calls):
        return None
    shapes = {name: [c["arguments"].get(name) for c in calls]
              for name in calls[0]["arguments"]}
    tensors = {k: [d["shape"] for d in v] for k, v in shapes.items()
               if all(isinstance(d, dict) for d in v)
               and len({len(d["shape"]) for d in v}) == 1}
    return _source([c["result"] for c in calls], tensors) if tensors else None


def _source(results: list[Any], tensors: dict[str, list[list[int]]]
            ) -> str | None:
    first = results[0]
    if isinstance(first, list):
        if any(not isinstance(r, list) or len(r) != len(first)
               or r[0] != first[0] for r in results):
            return None
        parts = [_source(list(part), tensors)
                 for part in list(zip(*results))[1:]]
        if any(p is None for p in parts):
            return None
        inner = ", ".join(map(str, parts))
        return f"[{inner}]" if first[0] == "list" else f"({inner},)"
    if isinstance(first, dict):
        if any(not isinstance(r, dict) or r["dtype"] != first["dtype"]
               or len(r["shape"]) != len(first["shape"]) for r in results):
            return None
        sizes = [_size([r["shape"][i] for r in results], i, tensors)
                 for i in range(len(first["shape"]))]
        if any(s is None for s in sizes):
            return None
        return (f"{next(iter(tensors))}.new_empty("
                f"[{', '.join(map(str, sizes))}], dtype={first['dtype']})")
    return "None" if all(r == "None" for r in results) else None


def _size(sizes: list[int], position: int,
          tensors: dict[str, list[list[int]]]) -> str | None:
    """A size as that of an argument, a product of two, or the same always."""
    dims = [(d != position, f"{name}.shape[{d}]", [s[d] for s in shapes])
            for name, shapes in tensors.items()
            for d in range(len(shapes[0]))]
    dims.sort(key=lambda dim: dim[0])
    for _, source, values in dims:
        if values == sizes and sizes != [1] * len(sizes):
            return source
    for (_, a, x), (_, b, y) in itertools.combinations(dims, 2):
        if a.split(".")[0] == b.split(".")[0] and min(x + y) > 1 and \
                [i * j for i, j in zip(x, y)] == sizes:
            return f"{a} * {b}"
    return str(sizes[0]) if len(set(sizes)) == 1 else None


def _with_leaf(text: str, tree: ast.Module, node: ast.FunctionDef, name: str,
               result: str, is_dense: bool) -> str:
    arguments = copy.deepcopy(node.args)
    for argument in ast.walk(arguments):
        if isinstance(argument, ast.arg):
            argument.annotation = None
    takes, gives = ast.unparse(arguments), _passed(arguments)
    leaf = "_opaque_" + name.replace(".", "_")
    inner = f"_eager_{node.name}"
    owner = name.rpartition(".")[0]
    call = f"{owner + '.' if owner else ''}{inner}({gives})"
    if not is_dense:
        call = ("torch.utils._pytree.tree_map_only(torch.Tensor, "
                f"torch.Tensor.contiguous, {call})")
    after = (f"\n\n\nimport torch._dynamo.decorators\n\n\n"
             f"@torch._dynamo.decorators.leaf_function\n"
             f"def {leaf}({takes}):\n    return {call}\n\n\n"
             f"@{leaf}.register_fake\ndef _({takes}):\n    return {result}")
    indent = " " * node.col_offset
    wrapper = (f"{indent}def {node.name}({takes}):\n"
               f"{indent}    return {leaf}({gives})")
    head, rest = f"def {node.name}", segment(text, node)
    rest = rest.replace(head, f"def {inner}", 1)
    if not owner:
        return replaced(text, node, rest + after + "\n\n\n" + wrapper)
    top = next(n for n in tree.body if isinstance(n, ast.ClassDef)
               and node in n.body)
    whole = segment(text, top)
    new = whole.replace(segment(text, node), f"{rest}\n\n{wrapper}", 1)
    return replaced(text, top, new + after)


def _passed(arguments: ast.arguments) -> str:
    """How a function passes on what it was called with."""
    words = [a.arg for a in arguments.posonlyargs + arguments.args]
    if arguments.vararg:
        words.append(f"*{arguments.vararg.arg}")
    words += [f"{a.arg}={a.arg}" for a in arguments.kwonlyargs]
    if arguments.kwarg:
        words.append(f"**{arguments.kwarg.arg}")
    return ", ".join(words)


Seen = Callable[[dict[str, str]], str]


def explored(places: Iterable[tuple[str, int]], texts: Texts, run: Seen
             ) -> tuple[dict[Around, list[Around]], Told]:
    """For the functions around some lines, what may be opaque in their place,
    and what is known of those; `run` runs the script eagerly, with some texts,
    and says to which file they told."""
    inner = {at for file, line in places
             if (at := around(file, line, texts)) is not None}
    if not inner:
        return {}, {}
    told = read(run(observed(inner, texts)))
    candidates = {at: outward(told, at, texts) for at in inner}
    more = {at for found in candidates.values() for at in found} - inner
    if more:
        told |= read(run(observed(more, texts)))
    return candidates, told
