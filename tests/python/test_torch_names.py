# SPDX-License-Identifier: Apache-2.0
"""Every name of torch's that the package uses is there: torch does not publish
the private ones, and a newer one may lack them."""

from __future__ import annotations

import ast
import importlib
import pathlib
from typing import Any, Iterator

import pytest
import torch

import opgraft

PACKAGE = pathlib.Path(opgraft.__file__).resolve().parent
OF_CUDA_BUILDS = {"torch._C._cuda_getCurrentRawStream"}


def chain(node: ast.AST) -> list[str]:
    """torch.a.b as ["torch", "a", "b"]; empty where it begins otherwise."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return [*names, node.id][::-1] if isinstance(node, ast.Name) else []


def used(tree: ast.AST) -> Iterator[tuple[int, list[str]]]:
    """(line, path) of what a file imports of torch's, and of attributes."""
    known = {"torch": ["torch"]}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for name in node.names:
                if name.name.split(".")[0] == "torch":
                    yield node.lineno, name.name.split(".")
                    if name.asname:
                        known[name.asname] = name.name.split(".")
        elif (isinstance(node, ast.ImportFrom) and node.module
              and node.module.split(".")[0] == "torch" and not node.level):
            for name in node.names:
                path = [*node.module.split("."), name.name]
                yield node.lineno, path
                known[name.asname or name.name] = path
    for node in ast.walk(tree):
        names = chain(node)
        if len(names) > 1 and names[0] in known:
            yield node.lineno, [*known[names[0]], *names[1:]]


def has(path: list[str]) -> bool:
    value: Any = torch
    for i, name in enumerate(path[1:], 2):
        if value is None or isinstance(value, type(torch.ops)):
            return True  # by another's state
        if not hasattr(value, name):
            try:
                value = importlib.import_module(".".join(path[:i]))
            except (ImportError, ValueError):
                return False
        else:
            value = getattr(value, name)
        if not isinstance(value, (type, type(torch))):
            return True  # attributes of modules and classes only
    return True


def missing() -> tuple[list[str], int]:
    found, count = [], 0
    for path in sorted(PACKAGE.rglob("*.py")):
        file = str(path.relative_to(PACKAGE))
        for line, names in used(ast.parse(path.read_text())):
            name = ".".join(names)
            count += any(n.startswith("_") for n in names)
            if not has(names) and name not in OF_CUDA_BUILDS:
                found.append(f"{file}:{line}: {name}")
    return found, count


def test_every_name_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    found, private = missing()
    assert not found
    assert private > 100
    monkeypatch.delattr(torch._C, "_len_torch_function_stack")
    found, _ = missing()
    assert found
    for place in found:
        assert place.startswith("_base/host.py:")
        assert place.endswith(": torch._C._len_torch_function_stack")
