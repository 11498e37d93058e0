# SPDX-License-Identifier: Apache-2.0
"""Proposals of opgraft.adopt: what a call takes and gives is seen in an eager
run of the script, and becomes its declaration.

Seen shapes are a guess at the rule behind them; adopt holds every later call
against it, and raises where the guess was wrong.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from . import _told
from ._source import (
    Texts,
    after_imports,
    before_top,
    replaced,
    segment,
    statement_at,
    text_of,
    tree_of,
)

_DTYPES = {"float64": "f64", "float32": "f32", "float16": "f16",
           "bfloat16": "bf16", "int64": "i64", "int32": "i32", "int16": "i16",
           "int8": "i8", "uint8": "u8", "bool": "bool"}


# --- In the observed run ------------------------------------------------------


def seen(key: str, fn: Callable[..., Any]) -> Callable[..., Any]:
    """`fn`, which tells what it was called with and what it gave."""

    def told(call: _told.Call) -> dict[str, Any]:
        is_tuple = isinstance(call.result, tuple)
        results = call.result if is_tuple else [call.result]
        return {
            "key": key, "args": [_describe(a) for a in call.args],
            "results": [_describe(r) for r in results], "is_tuple": is_tuple,
            "is_plain": not call.kwargs and call.is_unchanged,
        }

    return _told.watched(fn, told)


def _describe(value: Any) -> dict[str, Any]:
    if isinstance(value, torch.Tensor):
        return {"type": "Tensor", "shape": list(value.shape),
                "dtype": str(value.dtype).removeprefix("torch.")}
    return {"type": type(value).__name__}


# --- What to observe ----------------------------------------------------------


def observed(places: Iterable[tuple[str, int]], texts: Texts
             ) -> dict[str, str]:
    """`texts` in which the calls at some lines, and the functions around
    them, tell what they are called with."""
    watched = _told.source_of(seen)
    out: dict[str, str] = {}
    by_file: dict[str, set[int]] = {}
    for file, line in places:
        by_file.setdefault(file, set()).add(line)
    for file, lines in by_file.items():
        text = text_of(file, texts)
        tree = tree_of(text) if text is not None else None
        if text is None or tree is None:
            continue
        edits: list[tuple[ast.AST, str]] = []
        for line in lines:
            for call in _calls_at(tree, line):
                edits.append((call.func, f'{watched}("{_key(call)}", '
                              f"{segment(text, call.func)})"))
        for function in {f.lineno: f for line in lines
                         if (f := _function_at(tree, line))}.values():
            last = function.body[-1]
            edits.append((last, segment(text, last) + f"\n{function.name} = "
                          f'{watched}("{function.name}", {function.name})'))
        for node, new in sorted(edits, key=_end, reverse=True):
            text = replaced(text, node, new)
        if tree_of(text) is not None:
            out[file] = text
    return out


def _end(edit: tuple[ast.AST, str]) -> tuple[int, int]:
    node: Any = edit[0]
    return node.end_lineno, node.end_col_offset


def _key(call: ast.Call) -> str:
    return f"{call.lineno}:{call.col_offset}"


def _root_name(node: ast.AST) -> str:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _global_names(tree: ast.Module) -> set[str]:
    found = set()
    for node in tree.body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            found |= {a.asname or a.name.split(".")[0] for a in node.names}
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, ast.Assign):
            found |= {t.id for t in node.targets if isinstance(t, ast.Name)}
    return found


def _calls_at(tree: ast.Module, line: int) -> list[ast.Call]:
    """The calls of one line that could be adopted: by a global name, with
    arguments in order, and none inside another."""
    statement = statement_at(tree, line)
    names = _global_names(tree) - {"torch"}
    calls = [n for n in ast.walk(statement) if isinstance(n, ast.Call)
             and n.lineno == line and _root_name(n.func) in names
             and n.args and not n.keywords
             and not any(isinstance(a, ast.Starred) for a in n.args)
             ] if statement else []
    return [c for c in calls
            if not any(c is not o and c in ast.walk(o) for o in calls)]


def _function_at(tree: ast.Module, line: int) -> ast.FunctionDef | None:
    """The function of the module that holds a line, if it can be adopted."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.lineno <= line <= (
                node.end_lineno or 0) and not node.decorator_list \
                and not node.args.kwonlyargs and not node.args.vararg \
                and not node.args.kwarg:
            return node
    return None


# --- What to propose ----------------------------------------------------------


def read(path: str) -> dict[str, list[dict[str, Any]]]:
    """key -> what was seen there."""
    found: dict[str, list[dict[str, Any]]] = {}
    for told in _told.lines(path):
        found.setdefault(told["key"], []).append(told)
    return found


def proposed(root: Any, text: str, tree: ast.Module, statement: ast.stmt,
             known: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """(title, text) for the calls at a root, then for its function."""
    told = known.get(root.file, {})
    for call in _calls_at(tree, root.line):
        words = declaration([a for a in told.get(_key(call), [])],
                            segment(text, call.func).split(".")[-1],
                            [f"x{i}" for i in range(len(call.args))])
        if words is None:
            continue
        name = "_" + re.sub(r"\W", "_", segment(text, call.func))
        new = replaced(text, call.func, name)
        yield (f"adopt {segment(text, call.func)}", _with_import(before_top(
            new, tree, statement.lineno, [
                f"{name} = opgraft.adopt({segment(text, call.func)}, "
                f"{words})", "", ""])))
    function = _function_at(tree, root.line)
    if function is not None:
        words = declaration(told.get(function.name, []), function.name,
                            [a.arg for a in function.args.args])
        if words is not None:
            last = function.body[-1]
            new = replaced(text, last, segment(text, last) + "\n\n\n"
                           f"{function.name} = opgraft.adopt("
                           f"{function.name}, {words})")
            yield f"adopt {function.name}", _with_import(new)


def _with_import(text: str) -> str:
    return after_imports(text, ["import opgraft"]) or text


def declaration(told: list[dict[str, Any]], name: str, names: list[str]
                ) -> str | None:
    """The arguments of adopt for what was seen; None where it says too
    little, or more than adopt takes."""
    if not told or any(not t["is_plain"] for t in told):
        return None
    first = told[0]
    kinds = [[a["type"] for a in t["args"]] for t in told]
    if any(k != kinds[0] for k in kinds) or len(kinds[0]) != len(names):
        return None
    types = {"Tensor": "Tensor", "int": "int", "float": "float",
             "bool": "bool", "str": "str"}
    if any(k not in types for k in kinds[0]) or any(
            r["type"] != "Tensor" for t in told for r in t["results"]):
        return None
    name = re.sub(r"\W", "_", name).strip("_") or "adopted"
    arguments = ", ".join(f"{types[k]} {n}" for k, n in zip(kinds[0], names))
    results = ", ".join("Tensor" for _ in first["results"])
    if first["is_tuple"]:
        results = f"({results})"
    shape, dtype = _shape(told, names), _dtype(first, names)
    if shape is None or dtype is None:
        return None
    return (f'schema="{name}({arguments}) -> {results}", shape="{shape}", '
            f'dtype="{dtype}", name="doctor::{name}"')


def _sizes(told: list[dict[str, Any]], part: str, index: int
           ) -> list[tuple[int, ...]] | None:
    """For each dim of a tensor its sizes over all calls; None where their
    number changes."""
    shapes = [t[part][index].get("shape", []) for t in told]
    if len({len(s) for s in shapes}) != 1:
        return None
    return [tuple(s[i] for s in shapes) for i in range(len(shapes[0]))]


def _shape(told: list[dict[str, Any]], names: list[str]) -> str | None:
    first = told[0]
    tensors = [i for i, a in enumerate(first["args"])
               if a["type"] == "Tensor"]
    patterns: dict[int, str] = {}
    results: list[str] = []
    dims = {i: _sizes(told, "args", i) for i in tensors}
    for r in range(len(first["results"])):
        same = next((i for i in tensors if all(
            t["results"][r]["shape"] == t["args"][i]["shape"]
            for t in told)), None)
        if same is not None:
            patterns.setdefault(same, f"{names[same]}[*P{same}]")
            results.append(f"[*P{same}]" if patterns[same].endswith(
                f"[*P{same}]") else _plain(same, dims[same] or []))
            continue
        wanted = _sizes(told, "results", r)
        if wanted is None:
            return None
        items = []
        for position, size in enumerate(wanted):
            found = _dim_like(size, position, dims)
            if found is not None:
                items.append(f"D{found[0]}_{found[1]}")
                patterns[found[0]] = names[found[0]] + _plain(
                    found[0], dims[found[0]] or [])
            elif len(set(size)) == 1:
                items.append(str(size[0]))
            else:
                return None
        results.append("[" + ", ".join(items) + "]")
    # A pattern that became one of dims speaks of dims in every result.
    for i, pattern in patterns.items():
        if not pattern.endswith(f"[*P{i}]"):
            results = [_plain(i, dims[i] or []) if r == f"[*P{i}]" else r
                       for r in results]
    left = ", ".join(patterns[i] for i in sorted(patterns))
    return f"{left} -> {', '.join(results)}".strip()


def _plain(index: int, sizes: list[tuple[int, ...]]) -> str:
    return "[" + ", ".join(f"D{index}_{d}" for d in range(len(sizes))) + "]"


def _dim_like(size: tuple[int, ...], position: int,
              dims: dict[int, list[tuple[int, ...]] | None]
              ) -> tuple[int, int] | None:
    """An argument's dim that had these sizes, the same position first."""
    found = [(i, d) for i, sizes in dims.items()
             for d, s in enumerate(sizes or []) if s == size]
    found.sort(key=lambda at: (at[1] != position, at))
    return found[0] if found else None


def _dtype(first: dict[str, Any], names: list[str]) -> str | None:
    """Every tensor by its own type, results by an argument's where one has
    it."""
    left: list[str] = []
    of: dict[str, str] = {}
    for name, argument in zip(names, first["args"]):
        if argument["type"] != "Tensor":
            continue
        if argument["dtype"] not in _DTYPES:
            return None
        left.append(f"{name}: {_DTYPES[argument['dtype']]}")
        of.setdefault(argument["dtype"], name)
    right = [of.get(r["dtype"], _DTYPES.get(r["dtype"], ""))
             for r in first["results"]]
    if not all(right):
        return None
    return f"{', '.join(left)} -> {', '.join(right)}"
