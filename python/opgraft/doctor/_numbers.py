# SPDX-License-Identifier: Apache-2.0
"""Rewrites that keep numbers in Python which a script puts into tensors, or
which NumPy makes and Dynamo takes for tensors: sizes held in buffers, a list
of numbers made a tensor, NumPy's arithmetic on Python's numbers.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator

from ._source import after_imports, replaced, segment

Made = Iterator[tuple[str, str, str]]  # class, title, text
_MATH = "math."
_IN_PYTHON = {  # of NumPy -> Python's, and how many arguments; None: any
    "np.sum": ("sum", 1), "np.max": ("max", 1), "np.min": ("min", 1),
    "np.prod": (_MATH + "prod", 1), "np.lcm": (_MATH + "lcm", 2),
    "np.gcd": (_MATH + "gcd", 2), "np.sqrt": (_MATH + "sqrt", 1),
    "np.ceil": (_MATH + "ceil", 1), "np.floor": (_MATH + "floor", 1),
}


def edited(text: str, edits: list[tuple[ast.AST, str]]) -> str:
    """`text` with another source for some nodes, none inside another."""
    def at(edit: tuple[ast.AST, str]) -> tuple[int, int]:
        node: ast.expr = edit[0]  # type: ignore[assignment]
        return node.lineno, node.col_offset

    for node, new in sorted(edits, key=at, reverse=True):
        text = replaced(text, node, new)
    is_math = any(_MATH in new for _, new in edits)
    return with_import(text, "math") if is_math else text


def with_import(text: str, module: str) -> str:
    return after_imports(text, [f"import {module}"]) or text


def _numpy_edits(text: str, node: ast.AST) -> list[tuple[ast.AST, str]]:
    out: list[tuple[ast.AST, str]] = []
    for call in ast.walk(node):
        if isinstance(call, ast.Call) and not call.keywords:
            name, count = _IN_PYTHON.get(segment(text, call.func), ("", 0))
            if name and len(call.args) == count:
                out.append((call.func, name))
    return out


def python_arithmetic(text: str, statement: ast.stmt) -> Made:
    """NumPy's sum of a list is a tensor to Dynamo; Python's is a number."""
    edits = _numpy_edits(text, statement)
    if edits:
        yield ("rewrite", "reduce the list in Python", edited(text, edits))


def python_helper(text: str, tree: ast.Module, used: set[str]) -> Made:
    """A helper of the file, of which one of the names `used` comes, that
    computes with NumPy."""
    helpers = {n.name: n for n in tree.body if isinstance(n, ast.FunctionDef)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(
                node.value, ast.Call) and isinstance(
                    node.value.func, ast.Name) and used & {
                        t.id for t in node.targets if isinstance(t, ast.Name)}:
            helper = helpers.get(node.value.func.id)
            edits = _numpy_edits(text, helper) if helper else []
            if helper is not None and edits:
                yield ("rewrite", f"let {helper.name} compute with Python's "
                       "numbers", edited(text, edits))


# --- A list of numbers made a tensor ------------------------------------------

_MAKERS = ("tensor", "IntTensor", "LongTensor")


def python_list(text: str, functions: list[ast.FunctionDef]) -> Made:
    """torch.tensor([a, b]) of which only single numbers are taken."""
    for function in functions:
        for node in ast.walk(function):
            made = node.value if isinstance(node, ast.Assign) else None
            if isinstance(made, ast.Call) and segment(text, made.func) in [
                    "torch." + m for m in _MAKERS] and made.args \
                    and isinstance(made.args[0], ast.List) \
                    and _only_taken_from(
                        function, node.targets):  # type: ignore[attr-defined]
                yield ("rewrite", "keep the numbers in a Python list",
                       replaced(text, made, segment(text, made.args[0])))


def _only_taken_from(function: ast.FunctionDef, targets: list[ast.expr]
                     ) -> bool:
    """Whether each use of a name takes one item of it."""
    target = targets[0]
    if len(targets) != 1 or not isinstance(target, ast.Name):
        return False
    taken = {id(n.value) for n in ast.walk(function)
             if isinstance(n, ast.Subscript) and not isinstance(
                 n.slice, (ast.Slice, ast.Tuple))}
    uses = [n for n in ast.walk(function) if isinstance(n, ast.Name)
            and n.id == target.id and isinstance(n.ctx, ast.Load)]
    return bool(uses) and all(id(n) in taken for n in uses)


# --- Numbers in buffers -------------------------------------------------------

_TO_PYTHON = {"ceil": _MATH + "ceil", "floor": _MATH + "floor",
              "sqrt": _MATH + "sqrt", "maximum": "max", "minimum": "min",
              "abs": "abs"}
_CASTS = {"torch.int64": "int", "torch.long": "int", "torch.int32": "int",
          "torch.float32": "float", "torch.float": "float"}
_CAST_METHODS = {"item": "", "long": "int", "int": "int", "float": "float"}
_NUMBER = "_number"  # after the name of a buffer: its value
_OF_NUMBERS = {"len", "int", "float", "max", "min", "abs", "round"}


def python_buffers(text: str, tree: ast.Module, statement: ast.stmt) -> Made:
    """The buffers of a class that are left out of its state, as numbers of
    Python beside them; what its methods compute with those alone is then
    Python's too. That each holds one number is for the trial to find."""
    owner = next((n for n in tree.body if isinstance(n, ast.ClassDef)
                  and n.lineno <= statement.lineno <= (n.end_lineno or 0)),
                 None)
    buffers = dict(_buffers(text, owner)) if owner is not None else {}
    if owner is None or not buffers:
        return
    edits: list[tuple[ast.AST, str]] = []
    for name, (assigned, value) in buffers.items():
        edits.append((assigned, f"{segment(text, assigned)}\n"
                      f"{' ' * assigned.col_offset}self.{name}{_NUMBER} = "
                      f"({segment(text, value)}).item()"))
    for method in owner.body:
        if isinstance(method, ast.FunctionDef) and method.name != "__init__":
            edits += _Numbers(set(buffers)).edits(method)
    yield ("rewrite", f"keep {', '.join(buffers)} as Python numbers",
           edited(text, edits))


def _buffers(text: str, owner: ast.ClassDef
             ) -> Iterator[tuple[str, tuple[ast.Assign, ast.expr]]]:
    for node in ast.walk(owner):
        if not isinstance(node, ast.Assign) or not isinstance(
                node.value, ast.Call):
            continue
        call, target = node.value, node.targets[0]
        is_left_out = any(k.arg == "persistent" and isinstance(
            k.value, ast.Constant) and k.value.value is False
            for k in call.keywords)
        if is_left_out and call.args and segment(text, target).startswith(
                "self.") and isinstance(target, ast.Attribute) and segment(
                    text, call.func) in ("nn.Buffer", "torch.nn.Buffer"):
            yield target.attr, (node, call.args[0])


class _Numbers(ast.NodeTransformer):
    """What a method computes with numbers of Python alone, where some of its
    attributes are such, in Python's own functions."""

    def __init__(self, attributes: set[str]) -> None:
        self.attributes = attributes
        self.names: set[str] = set()
        self.others: set[str] = set()  # names that may hold something else

    def edits(self, method: ast.FunctionDef) -> list[tuple[ast.AST, str]]:
        assigned = sorted((n for n in ast.walk(method)
                           if isinstance(n, ast.Assign)),
                          key=lambda n: n.lineno)
        for _ in range(2):  # a name is one where all its values are
            self.names.clear()
            for node in assigned:
                self._name(node)
        out: list[tuple[ast.AST, str]] = []
        whole: set[int] = set()  # of what is written anew
        for node in assigned:
            if any(isinstance(n, ast.Call) and self._python(n)
                   for n in ast.walk(node.value)):
                whole |= {id(n) for n in ast.walk(node.value)}
                out.append((node.value, ast.unparse(self.visit(
                    copy.deepcopy(node.value)))))
        return out + [(n, f"self.{n.attr}{_NUMBER}") for n in ast.walk(method)
                      if isinstance(n, ast.Attribute) and id(n) not in whole
                      and self._is_buffer(n)]

    def _is_buffer(self, node: ast.Attribute) -> bool:
        return isinstance(node.value, ast.Name) and node.value.id == "self" \
            and node.attr in self.attributes and isinstance(
                node.ctx, ast.Load)

    def _name(self, node: ast.Assign) -> None:
        for target in node.targets:
            for name in ast.walk(target):
                if isinstance(name, ast.Name):
                    if target is not name or not self.is_number(node.value):
                        self.others.add(name.id)
                    elif name.id not in self.others:
                        self.names.add(name.id)

    def is_number(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Constant):
            return isinstance(node.value, (int, float))
        if isinstance(node, ast.Name):
            return node.id in self.names - self.others
        if isinstance(node, ast.Attribute):
            return self._is_buffer(node)
        if isinstance(node, ast.Subscript):  # a size
            return isinstance(node.value, ast.Attribute) \
                and node.value.attr == "shape" \
                and not isinstance(node.slice, ast.Slice)
        if isinstance(node, ast.UnaryOp):
            return self.is_number(node.operand)
        if isinstance(node, ast.BinOp):
            return self.is_number(node.left) and self.is_number(node.right)
        if not isinstance(node, ast.Call):
            return False
        return self._python(node) is not None or (
            ast.unparse(node.func) in _OF_NUMBERS
            and all(map(self.is_number, node.args)))

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        if self._is_buffer(node):
            node.attr += _NUMBER
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        name = self._python(node)
        self.generic_visit(node)
        if name is None:
            return node
        of = [node.func.value] if isinstance(
            node.func, ast.Attribute) and _is_method(node) else node.args
        arguments = ", ".join(map(ast.unparse, of))
        return ast.parse(f"{name}({arguments})", mode="eval").body

    def _python(self, node: ast.Call) -> str | None:
        """The function of Python that does what a call does with numbers."""
        if node.keywords or not isinstance(node.func, ast.Attribute):
            return None
        if not _is_method(node):
            return _TO_PYTHON.get(node.func.attr) if node.args and all(
                map(self.is_number, node.args)) else None
        if not self.is_number(node.func.value):
            return None
        if node.func.attr == "to" and len(node.args) == 1:
            return _CASTS.get(ast.unparse(node.args[0]))
        return None if node.args else _CAST_METHODS.get(node.func.attr)


def _is_method(node: ast.Call) -> bool:
    return ast.unparse(node.func).rpartition(".")[0] != "torch"
