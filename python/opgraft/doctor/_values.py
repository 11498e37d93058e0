# SPDX-License-Identifier: Apache-2.0
"""Proposals that take a choice as what it was in every call of an eager run,
and check it in the graph.

Which way a model goes may hang on its data and yet be the same for all that it
is run on. A graph of that way raises where the data say otherwise; the eager
function chooses as before.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import Any

from . import _source, _told

FEWEST = 2  # calls that must have gone the same way
_TAKEN = """\
def _taken_as(known, value):
    \"\"\"A choice that a graph takes as known: it raises where it is not.\"\"\"
    if not torch.compiler.is_compiling():
        return bool(value)
    torch._assert_async(value == known, f"this was compiled for {known}")
    return known
"""


def seen(file: str, key: str, value: Any) -> Any:
    """`value`, which is told where it is a choice."""
    import torch

    if isinstance(value, torch.Tensor) and value.numel() == 1 \
            and value.dtype == torch.bool:
        _told.tell([file, key, bool(value)])
    return value


def observed(places: Iterable[tuple[str, int]], texts: _source.Texts
             ) -> dict[str, str]:
    """`texts` in which the choices at some lines tell what they are."""
    out: dict[str, str] = {}
    for file, line in sorted(set(places), reverse=True):  # from the last line
        text = _source.text_of(file, {**texts, **out})
        tree = _source.tree_of(text) if text is not None else None
        for key, _, value in _choices(tree, line) if tree else ():
            told = (f"{_told.source_of(seen)}({file!r}, {key!r}, "
                    f"{_source.segment(text or '', value)})")
            new = _source.replaced(text or "", value, told)
            if _source.tree_of(new) is not None:
                out[file] = new
    return out


def _choices(tree: ast.Module, line: int
             ) -> Iterator[tuple[str, ast.expr, ast.expr]]:
    """What is asked at a line: its key, the expression, and the tensor in
    it."""
    statement = _source.statement_at(tree, line)
    head = getattr(statement, "test", statement)
    if statement is None or hasattr(head, "body"):
        return
    for call in ast.walk(head):  # type: ignore[arg-type]
        if isinstance(call, ast.Call) and isinstance(
                call.func, ast.Attribute) and call.func.attr == "item" \
                and not call.args:
            yield ast.unparse(call), call, call.func.value
            return
    if isinstance(statement, ast.If):
        yield (ast.unparse(head), head,  # type: ignore[arg-type, misc]
               head)


def read(path: str) -> dict[str, dict[str, list[bool]]]:
    """What was seen: file -> key -> values."""
    found: dict[str, dict[str, list[bool]]] = {}
    for at, key, value in _told.lines(path):
        found.setdefault(at, {}).setdefault(key, []).append(value)
    return found


def proposed(line: int, text: str, tree: ast.Module,
             known: dict[str, list[bool]]) -> Iterator[tuple[str, str]]:
    """(title, text) for a choice that was always the same."""
    for key, whole, value in _choices(tree, line):
        values = known.get(key, [])
        if len(values) >= FEWEST and len(set(values)) == 1:
            new = _source.replaced(text, whole, f"_taken_as({values[0]}, "
                           f"{_source.segment(text, value)})")
            yield (f"take {key} as {values[0]}, as in every call; the graph "
                   "raises where it is not", _with_helper(new, tree, line))


def _with_helper(text: str, tree: ast.Module, line: int) -> str:
    """`text` with the helper before the definition that holds a line."""
    if _TAKEN not in text:
        text = _source.before_top(text, tree, line,
                                  [*_TAKEN.splitlines(), "", ""])
    return _source.after_imports(text, ["import torch"]) or text
