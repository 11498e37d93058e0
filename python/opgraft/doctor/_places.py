# SPDX-License-Identifier: Apache-2.0
"""Places in source: whose a file is, which frame of a stack is to blame."""

from __future__ import annotations

import ast
import functools
import linecache
import os
import re
import site
import sysconfig
import traceback
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import torch

YOURS = "your code"
PYTORCH = "PyTorch"
PYTHON = "Python"

_TORCH = os.path.dirname(os.path.realpath(torch.__file__)) + os.sep
_OURS = os.path.dirname(os.path.dirname(os.path.realpath(__file__))) + os.sep
_STDLIB = tuple(
    os.path.realpath(p) + os.sep
    for p in {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")}
    if p
)
_PACKAGES = tuple(
    os.path.realpath(p) + os.sep
    for p in {sysconfig.get_path("purelib"), sysconfig.get_path("platlib"),
              *site.getsitepackages(), site.getusersitepackages()}
    if p
)
_STACK_LINE = re.compile(r'File "([^"\n]*)", line (\d+), in ([^\n]*)')
_RESUME = re.compile(r"^torch_dynamo_resume_in_(.+)_at_\d+$")


class Place(NamedTuple):
    file: str
    line: int
    function: str


class Site(NamedTuple):
    """The line to blame, and where it happened inside what that line calls."""

    place: Place
    at: Place | None
    owner: str


@functools.lru_cache(maxsize=4096)
def absolute(file: str) -> str:
    return file if not file or file.startswith("<") else os.path.abspath(file)


@functools.lru_cache(maxsize=4096)
def owner(file: str) -> str:
    if file.startswith("<"):
        return PYTHON if file.startswith("<frozen") else YOURS
    path = os.path.realpath(file)
    if path.startswith(_TORCH):
        return PYTORCH
    if path.startswith(_OURS):
        return "library opgraft"
    for folder in _PACKAGES:
        if path.startswith(folder):
            name = path[len(folder):].split(os.sep)[0]
            return f"library {name.removesuffix('.py')}"
    if path.startswith(_STDLIB):
        return PYTHON
    return YOURS


def base_name(function: str) -> str:
    """The name of the function that a resume function continues."""
    match = _RESUME.match(function)
    return base_name(match[1]) if match else function


def is_resume(function: str) -> bool:
    return _RESUME.match(function) is not None


def _is_blamed(file: str) -> bool:
    return owner(file) not in (PYTORCH, PYTHON)


def site_of(stack: Sequence[Place]) -> Site | None:
    """Of a stack, innermost last: the innermost line that is neither
    PyTorch's nor Python's own."""
    if not stack:
        return None
    last = stack[-1]
    for place in reversed(stack):
        if _is_blamed(place.file):
            at = None if place is last else last
            return Site(place, at, owner(place.file))
    return Site(last, None, owner(last.file))


def places(stack: Iterable[Any]) -> list[Place]:
    return [Place(f.filename, f.lineno or 0, base_name(f.name)) for f in stack]


def places_of_text(text: str) -> list[Place]:
    """The stack that a node's `stack_trace` or a message holds."""
    return [Place(file, int(line), base_name(name.strip()))
            for file, line, name in _STACK_LINE.findall(text)]


def callers(frame: Any) -> list[Place]:
    """The stack that ends in `frame`, without our own files."""
    found = []
    for f, line in traceback.walk_stack(frame):
        if not f.f_code.co_filename.startswith(_OURS):
            found.append(Place(f.f_code.co_filename, line,
                               base_name(f.f_code.co_name)))
    found.reverse()
    return found


def code(place: Place) -> str:
    return linecache.getline(place.file, place.line).strip()


@functools.lru_cache(maxsize=256)
def _definitions(file: str) -> dict[int, int]:
    """First line of each function, decorators included -> line of its def."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return {}
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            found[first] = node.lineno
    return found


def definition(code_object: Any) -> Place:
    """Where a function is defined: its `def`, not its decorators."""
    file, line = code_object.co_filename, code_object.co_firstlineno
    return Place(file, _definitions(file).get(line, line),
                 base_name(code_object.co_name))
