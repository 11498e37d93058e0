# SPDX-License-Identifier: Apache-2.0
"""Source text: edits of single expressions and statements, and running a
script whose files are other than those on disk."""

from __future__ import annotations

import ast
import contextlib
import difflib
import importlib.machinery
import linecache
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

Texts = Mapping[str, str]  # file -> what stands in it instead


def text_of(file: str, texts: Texts) -> str | None:
    """None where Python cannot read it as text."""
    if file in texts:
        return texts[file]
    with contextlib.suppress(OSError, ValueError):
        return Path(file).read_text(encoding="utf-8")
    return None


def tree_of(text: str) -> ast.Module | None:
    with contextlib.suppress(SyntaxError, ValueError):
        return ast.parse(text)
    return None


def _offset(text: str, line: int, column: int) -> int:
    """ast counts columns in bytes of UTF-8."""
    lines = text.splitlines(keepends=True)
    before = lines[line - 1].encode()[:column].decode() if line <= len(
        lines) else ""
    return sum(map(len, lines[:line - 1])) + len(before)


def replaced(text: str, node: ast.AST, new: str) -> str:
    """`text` with another source for an expression or a statement."""
    at: Any = node
    begin = _offset(text, at.lineno, at.col_offset)
    end = _offset(text, at.end_lineno, at.end_col_offset)
    return text[:begin] + new + text[end:]


def segment(text: str, node: ast.AST) -> str:
    return ast.get_source_segment(text, node) or ""


def indent_of(text: str, node: ast.stmt) -> str:
    line = text.splitlines()[node.lineno - 1]
    return line[:len(line) - len(line.lstrip())]


def after_imports(text: str, lines: list[str]) -> str | None:
    """`text` with `lines` after the imports at its top, those that it has
    already left out; None where nothing is new."""
    tree = tree_of(text)
    have = text.splitlines()
    lines = [line for line in lines if line not in have]
    if tree is None or not lines:
        return None
    end = 0
    for node in tree.body:
        is_doc = isinstance(node, ast.Expr) and isinstance(
            node.value, ast.Constant)
        if isinstance(node, (ast.Import, ast.ImportFrom)) or (
                is_doc and end == 0):
            end = node.end_lineno or 0
    return _inserted(text, end, lines)


def _inserted(text: str, after: int, lines: Iterable[str]) -> str:
    """`text` with `lines` after so many of its own."""
    have = text.splitlines()
    return "\n".join([*have[:after], *lines, *have[after:]]) + "\n"


def first_line(node: ast.stmt) -> int:
    """Of a statement with its decorators."""
    decorators = getattr(node, "decorator_list", [])
    return min([node.lineno, *(d.lineno for d in decorators)])


def before_top(text: str, tree: ast.Module, line: int, lines: Iterable[str]
               ) -> str:
    """`text` with `lines` before the statement of the module that holds
    `line`; `tree` may be that of a text that differs within the statement."""
    top = next(first_line(node) for node in tree.body
               if first_line(node) <= line <= (node.end_lineno or 0))
    return _inserted(text, top - 1, lines)


def statement_at(tree: ast.Module, line: int) -> ast.stmt | None:
    """The innermost statement that holds a line."""
    found: ast.stmt | None = None
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt) and node.lineno <= line <= (
                node.end_lineno or node.lineno):
            if found is None or node.lineno >= found.lineno:
                found = node
    return found


def block_of(tree: ast.Module, wanted: ast.stmt) -> list[ast.stmt]:
    """The statements among which one stands."""
    for node in ast.walk(tree):
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list) and wanted in block:
                return block
    return []


def diff(texts: Texts, base: Texts | None = None) -> str:
    """A unified diff that `patch -p1` and `git apply` take, from `base` (else
    the files) to `texts`; paths are relative where they lie below."""
    out: list[str] = []
    for file in sorted(texts):
        old = text_of(file, base or {}) or ""
        name = os.path.relpath(file)
        name = file.lstrip("/") if name.startswith("..") else name
        out += difflib.unified_diff(
            old.splitlines(keepends=True),
            texts[file].splitlines(keepends=True), f"a/{name}", f"b/{name}")
    return "".join(line if line.endswith("\n")
                   else line + "\n\\ No newline at end of file\n"
                   for line in out)


@contextlib.contextmanager
def instead(texts: Texts) -> Iterator[None]:
    """Imports, tracebacks and inspect see `texts` in place of the files."""
    loader: Any = importlib.machinery.SourceFileLoader
    inner = loader.get_code

    def get_code(self: Any, name: str) -> Any:
        path = self.get_filename(name)
        if path in texts:
            return compile(texts[path], path, "exec", dont_inherit=True)
        return inner(self, name)

    for file, text in texts.items():
        linecache.cache[file] = (
            len(text), None, text.splitlines(keepends=True), file)
    loader.get_code = get_code
    try:
        yield
    finally:
        loader.get_code = inner
