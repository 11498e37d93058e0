# SPDX-License-Identifier: Apache-2.0
"""Places in source: whose a file is, which frame of a stack is to blame."""

from __future__ import annotations

import ast
import contextlib
import functools
import importlib.metadata
import linecache
import os
import re
import sysconfig
import time
import traceback
import types
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
# Wherever it is installed: a script may bring its packages along.
_PACKAGE = re.compile(r"/(?:site|dist)-packages/([^/]+)")
_STACK_LINE = re.compile(r'File "([^"\n]*)", line (\d+), in ([^\n]*)')
_RESUME = re.compile(r"^torch_dynamo_resume_in_(.+)_at_(\d+)$")


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
    package = _PACKAGE.search(path)
    if package:
        return f"library {package[1].removesuffix('.py')}"
    if path.startswith(_STDLIB):
        return PYTHON
    return YOURS


def base_name(function: str) -> str:
    """The name of the function that a resume function continues."""
    match = _RESUME.match(function)
    return base_name(match[1]) if match else function


def resumed_at(function: str) -> int:
    """The line of the break that a resume function continues; 0: not one."""
    match = _RESUME.match(function)
    return int(match[2]) if match else 0


@functools.lru_cache(maxsize=1)
def _beneath() -> frozenset[str]:
    """The packages that PyTorch is built on, and those beneath them."""
    found: set[str] = set()
    waiting = ["torch"]
    while waiting:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            for line in importlib.metadata.requires(waiting.pop()) or []:
                name = re.split(r"[^\w.-]", line, maxsplit=1)[0]
                if "extra ==" not in line and name not in found:
                    found.add(name)
                    waiting.append(name)
    return frozenset("library " + n.replace("-", "_") for n in found)


def is_machinery(file: str) -> bool:
    """Code that PyTorch runs for its own ends, not for the user's."""
    whose = owner(file)
    return whose in (PYTORCH, PYTHON) or whose in _beneath()


def _blamed(stack: Sequence[Place]) -> Place | None:
    """Your innermost line, which is where you would mend it; without one, a
    library's."""
    whose = [owner(place.file) for place in stack]
    for is_it in (lambda o: o == YOURS,
                  lambda o: o not in (PYTORCH, PYTHON)):
        for place, of in zip(reversed(stack), reversed(whose)):
            if is_it(of):
                return place
    return None


def site_of(stack: Sequence[Place]) -> Site | None:
    """Of a stack, innermost last: the line to blame, and whose the code is
    that it calls into (PyTorch's and Python's own are called by someone)."""
    if not stack:
        return None
    last = stack[-1]
    place = _blamed(stack)
    if place is None:
        return Site(last, None, owner(last.file))
    whose = next(o for o in (owner(p.file) for p in reversed(stack))
                 if o not in (PYTORCH, PYTHON))
    return Site(place, None if place is last else last, whose)


def places(stack: Iterable[Any]) -> list[Place]:
    return [Place(f.filename, f.lineno or 0, base_name(f.name)) for f in stack]


def places_of_text(text: str) -> list[Place]:
    """The stack that a node's `stack_trace` or a message holds."""
    return [Place(file, int(line), base_name(name.strip()))
            for file, line, name in _STACK_LINE.findall(text)]


def calling(frame: Any, end: Any = None) -> Place | None:
    """The innermost line on a live stack, up to one of its frames, that is
    not PyTorch's or Python's."""
    for f, line in traceback.walk_stack(frame):
        if f is end:
            return None
        if owner(f.f_code.co_filename) not in (PYTORCH, PYTHON):
            return Place(f.f_code.co_filename, line,
                         base_name(f.f_code.co_name))
    return None


def code(place: Place) -> str:
    return linecache.getline(place.file, place.line).strip()


def with_around(place: Place, names: Sequence[str]) -> Place | None:
    """The innermost `with` around a line that speaks of one of the names."""
    try:
        tree = ast.parse("".join(linecache.getlines(place.file)))
    except (SyntaxError, ValueError):
        return None
    found = None
    for node in ast.walk(tree):  # from the outermost
        if isinstance(node, (ast.With, ast.AsyncWith)) and node.lineno <= \
                place.line <= (node.end_lineno or 0) and any(
                    name in ast.unparse(item.context_expr)
                    for item in node.items for name in names):
            found = Place(place.file, node.lineno, place.function)
    return found


def _begun() -> float:
    """When this process was started, as files' times are; 0: not known."""
    try:
        with open("/proc/self/stat", encoding="utf-8") as file:
            ticks = int(file.read().rpartition(")")[2].split()[19])
        since_boot = ticks / os.sysconf("SC_CLK_TCK")
        return time.time() - (
            time.clock_gettime(time.CLOCK_BOOTTIME) - since_boot)
    except (OSError, AttributeError, ValueError, IndexError):
        return 0.0


@functools.lru_cache(maxsize=4096)
def _codes_now(file: str, changed: float) -> frozenset[Any]:
    """The code objects that a file makes as it is now."""
    found: set[Any] = set()
    with open(file, "rb") as text:
        waiting: list[Any] = [compile(text.read(), file, "exec",
                                      dont_inherit=True)]
    while waiting:
        found.add(waiting[-1])
        waiting += [c for c in waiting.pop().co_consts
                    if isinstance(c, types.CodeType)]
    return frozenset(found)


def is_edited(code_object: types.CodeType) -> bool:
    """Whether a function's file has changed since it was read, so that lines
    are no longer what the function's are."""
    file = code_object.co_filename
    if resumed_at(code_object.co_name) or owner(file) != YOURS:
        return False
    try:
        changed = os.stat(file).st_mtime
        return changed > _begun() > 0 and \
            code_object not in _codes_now(file, changed)
    except (OSError, SyntaxError, ValueError):
        return False


_DEF = re.compile(r"\s*(async\s+)?def\s")
_FAR = 100  # lines that decorators may take


@functools.lru_cache(maxsize=4096)
def _def_line(file: str, first: int) -> int:
    lines = linecache.getlines(file)
    for line in range(first, min(first + _FAR, len(lines)) + 1):
        if _DEF.match(lines[line - 1]):
            return line
    return first


def definition(code_object: Any) -> Place:
    """Where a function is defined: its `def`, not its decorators."""
    file, line = code_object.co_filename, code_object.co_firstlineno
    name = code_object.co_name
    if not name.startswith("<") and not resumed_at(name):
        line = _def_line(file, line)
    return Place(file, line, base_name(name))
