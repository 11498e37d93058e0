# SPDX-License-Identifier: Apache-2.0
"""What may be done about a root cause: edits of the source, best first.

A proposal is only that: whether it changes numbers, mends anything or gains
time is for a trial to find (_verify.py). So a form is proposed wherever it
parses.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from . import _adoption, _numbers, _opaque, _source, _values
from ._source import (
    Texts,
    before_top,
    replaced,
    segment,
    statement_at,
    tree_of,
)


class Root(NamedTuple):
    """A root of a report, as far as fixes ask."""

    file: str
    line: int
    id: str
    stage: str
    function: str
    code: str
    text: str
    named: tuple[str, int, str, int]  # the report's file, line, and `at`
    hits: int = 1


class Proposal(NamedTuple):
    class_: str  # "flag", "rewrite", "hoist", "adopt"
    title: str
    texts: dict[str, str]  # whole files, as they would be
    is_opaque: bool = False  # of those the innermost comes first


class Context(NamedTuple):
    """Where a root stands: the script that runs, what its files hold now, and
    what was seen of the calls that could be adopted."""

    script: str
    texts: Texts
    seen: dict[str, Any]
    around: tuple[dict[Any, Any], dict[Any, Any]] = ({}, {})
    values: dict[str, Any] = {}


def proposals(root: Root, context: Context) -> Iterator[Proposal]:
    text = _source.text_of(root.file, context.texts)
    tree = tree_of(text) if text is not None else None
    statement = statement_at(tree, root.line) if tree else None
    yield from _flags(root, context)
    if text is None or tree is None or statement is None:
        return
    for make in REWRITES.get(root.id, ()) + ANY:
        for class_, title, new in make(root, text, tree, statement):
            if new != text and tree_of(new) is not None:
                yield Proposal(class_, title, {root.file: new})
    for title, new in _adoption.proposed(root, text, tree, statement,
                                         context.seen):
        yield Proposal("adopt", title, {root.file: new})
    at = _opaque.around(root.file, root.line, context.texts)
    candidates, told = context.around
    for title, file, new in _opaque.proposed(
            candidates.get(at, []), told, context.texts):
        yield Proposal("adopt", title, {file: new}, True)
    for title, new in _values.proposed(root.line, text, tree,
                                       context.values.get(root.file, {})):
        yield Proposal("rewrite", title, {root.file: new})


def is_certain(root: Root, context: Context) -> bool:
    """Whether what would be tried first computes as before by itself: a switch
    of torch's, or a statement that only looks, moved out."""
    first = next(proposals(root, context), None)
    return first is not None and (first.class_ == "flag"
                                  or first.title.startswith("only when"))


# --- Flags --------------------------------------------------------------------

_CONFIG = "torch._dynamo.config."
_SCALARS = [_CONFIG + "capture_scalar_outputs = True"]
_SHAPES = _SCALARS + [_CONFIG + "capture_dynamic_output_shape_ops = True"]
_FLAGS: dict[str, list[list[str]]] = {
    "GB0124": [_SCALARS], "GB0109": [_SCALARS],
    "GB0014": [[_CONFIG + "allow_rnn = True"]],
    "GB0083": [[_CONFIG + "compiled_autograd = True"]],
    "GB0036": [_SHAPES], "GB0033": [_SHAPES],
    "GB0059": [[_CONFIG + "reorderable_logging_functions.add(print)"]],
}
_GUARDS = (  # a part of the guard that failed -> flags
    ("size mismatch", [_CONFIG + "assume_static_by_default = False"]),
    ("self.", [_CONFIG + "allow_unspec_int_on_nn_module = True"]),
)


def _flags(root: Root, context: Context) -> Iterator[Proposal]:
    """Proposals that set a switch of torch's behind the script's imports."""
    wanted = list(_FLAGS.get(root.id, ()))
    if root.stage == "recompile":
        guard = root.text.split("\n")[0]  # of those that failed, the first
        wanted += [lines for part, lines in _GUARDS if part in guard]
    if "warnings.warn(" in root.code:
        wanted.append(["import warnings", _CONFIG +
                       "reorderable_logging_functions.add(warnings.warn)"])
    if root.id == "GB0291":
        method = root.code.split("(")[0].split(".")[-1]
        wanted.append(["import logging", _CONFIG + "ignore_logging_functions"
                       f".add(logging.Logger.{method})"])
    text = _source.text_of(context.script, context.texts)
    for lines in wanted if text is not None else ():
        new = _source.after_imports(text or "", ["import torch._dynamo",
                                                 *lines])
        if new is not None and tree_of(new) is not None:
            yield Proposal("flag", "; ".join(
                line.removeprefix("torch._dynamo.") for line in lines
                if "=" in line or ".add(" in line), {context.script: new})


# --- Rewrites -----------------------------------------------------------------

Made = Iterator[tuple[str, str, str]]  # class, title, text
Maker = Callable[[Root, str, ast.Module, ast.stmt], Made]


def _calls(node: ast.AST) -> list[ast.Call]:
    return [n for n in ast.walk(node) if isinstance(n, ast.Call)]


def _leave_out(_: Root, text: str, tree: ast.Module, statement: ast.stmt
               ) -> Made:
    """A statement whose value nobody takes."""
    if isinstance(statement, ast.Expr):
        yield ("rewrite", "leave the statement out",
               replaced(text, statement, "pass"))


def _gate(_: Root, text: str, tree: ast.Module, statement: ast.stmt) -> Made:
    """What only looks: not while compiling."""
    gate = "not torch.compiler.is_compiling()"
    if isinstance(statement, ast.Expr):
        inner = segment(text, statement).replace("\n", "\n    ")
        yield ("rewrite", "only when it is not compiled", replaced(
            text, statement, f"if {gate}:\n{_source.indent_of(text, statement)}"
            f"    {inner}"))
    if isinstance(statement, (ast.If, ast.Assert)) and not getattr(
            statement, "orelse", None) and (isinstance(
                statement, ast.Assert) or isinstance(
                    statement.body[-1], ast.Raise)):
        test = segment(text, statement.test)
        new = f"{gate} and ({test})" if isinstance(statement, ast.If) else \
            f"torch.compiler.is_compiling() or ({test})"
        yield ("rewrite", "check only when it is not compiled",
               replaced(text, statement.test, new))


def _keep_tensor(_: Root, text: str, tree: ast.Module, statement: ast.stmt
                 ) -> Made:
    """x.item(), float(x) -> x."""
    for call in _calls(_head(statement)):
        if isinstance(call.func, ast.Attribute) and call.func.attr == "item" \
                and not call.args:
            yield ("rewrite", "keep the value a tensor",
                   replaced(text, call, segment(text, call.func.value)))
        if isinstance(call.func, ast.Name) and call.func.id == "float" \
                and len(call.args) == 1:
            yield ("rewrite", "keep the value a tensor",
                   replaced(text, call, segment(text, call.args[0])))


def _head(statement: ast.stmt) -> ast.AST:
    """What of a compound statement runs on its own line."""
    return getattr(statement, "test", getattr(statement, "iter", statement))


def _target_of(block: list[ast.stmt]) -> tuple[ast.expr, ast.expr] | None:
    """(target, value) of a block that is one assignment."""
    if len(block) == 1 and isinstance(block[0], ast.Assign) and len(
            block[0].targets) == 1:
        return block[0].targets[0], block[0].value
    return None


def _condition(text: str, test: ast.expr) -> str:
    """A test on tensors as one tensor."""
    if isinstance(test, ast.BoolOp):
        sign = " | " if isinstance(test.op, ast.Or) else " & "
        return sign.join(f"({_condition(text, v)})" for v in test.values)
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return f"~({_condition(text, test.operand)})"
    return segment(text, test)


def _where(_: Root, text: str, tree: ast.Module, statement: ast.stmt) -> Made:
    """An `if` that chooses a value: torch.where takes the choice into the
    graph, and computes both."""
    if isinstance(statement, ast.If):
        then, other = _where_parts(text, tree, statement)
        if then is not None:
            yield ("rewrite", "select with torch.where", replaced(
                text, statement, f"{then[0]}torch.where("
                f"{_condition(text, statement.test)}, {then[1]}, {other})"))
    for node in ast.walk(statement):
        if isinstance(node, ast.IfExp):
            yield ("rewrite", "select with torch.where", replaced(
                text, node, f"torch.where({_condition(text, node.test)}, "
                f"{segment(text, node.body)}, {segment(text, node.orelse)})"))


def _where_parts(text: str, tree: ast.Module, statement: ast.If
                 ) -> tuple[tuple[str, str] | None, str]:
    taken = _target_of(statement.body)
    if taken is not None:
        target = segment(text, taken[0])
        refused = _target_of(statement.orelse)
        if not statement.orelse:
            return (f"{target} = ", segment(text, taken[1])), target
        if refused is not None and segment(text, refused[0]) == target:
            return (f"{target} = ", segment(text, taken[1])), segment(
                text, refused[1])
    first = statement.body[0]
    if len(statement.body) == 1 and isinstance(first, ast.Return) \
            and first.value is not None:
        block = statement.orelse or _source.block_of(tree, statement)[
            _source.block_of(tree, statement).index(statement) + 1:]
        if len(block) >= 1 and isinstance(block[0], ast.Return) \
                and block[0].value is not None:
            return ("return ", segment(text, first.value)), segment(
                text, block[0].value)
    return None, ""


_ATTRIBUTE = re.compile(r"\bself\.(\w+) ==")


def _tensor_attribute(root: Root, text: str, tree: ast.Module,
                      statement: ast.stmt) -> Made:
    """A number of a module that changes, in a tensor: no guard holds its
    value."""
    guarded = _ATTRIBUTE.search(
        root.text.split("\n")[0]) if root.stage == "recompile" \
        else None
    owner = next((n for n in ast.walk(tree) if isinstance(n, ast.ClassDef)
                  and n.lineno <= statement.lineno <= (n.end_lineno or 0)),
                 None)
    for node in ast.walk(owner) if guarded and owner else ():
        if isinstance(node, ast.Assign) and isinstance(
                node.value, ast.Constant) and type(node.value.value) in (
                    int, float) and guarded and [
                        ast.unparse(t) for t in node.targets] == [
                            f"self.{guarded[1]}"]:
            new = replaced(text, node.value,
                           f"torch.tensor({segment(text, node.value)})")
            yield ("rewrite", f"keep self.{guarded[1]} in a tensor",
                   _source.after_imports(new, ["import torch"]) or new)


def _clone(_: Root, text: str, tree: ast.Module, statement: ast.stmt) -> Made:
    for call in _calls(statement):
        if segment(text, call.func).split(".")[-1] == "deepcopy" and call.args:
            yield ("rewrite", "clone the tensor",
                   replaced(text, call, segment(text, call.args[0])
                            + ".clone()"))


def _hoist(_: Root, text: str, tree: ast.Module, statement: ast.stmt) -> Made:
    """A call whose arguments are all known when the file is loaded: its value
    is made there, once."""
    if statement in tree.body:
        return
    known = {n.targets[0].id for n in tree.body
             if isinstance(n, ast.Assign) and isinstance(
                 n.targets[0], ast.Name)}
    for call in _calls(statement):
        names = {n.id for a in call.args for n in ast.walk(a)
                 if isinstance(n, ast.Name)}
        if names <= known and call.args and not call.keywords:
            yield ("hoist", "make the value when the file is loaded",
                   before_top(replaced(text, call, "_HOISTED"), tree,
                              statement.lineno,
                              [f"_HOISTED = {segment(text, call)}", ""]))


def _constant(_: Root, text: str, tree: ast.Module, statement: ast.stmt
              ) -> Made:
    """A helper of the file whose result the statement uses, taken as a
    constant: what it gives may follow from a configuration alone."""
    helpers = {n.name: n for n in tree.body if isinstance(n, ast.FunctionDef)
               and not n.decorator_list}
    used = {n.id for n in ast.walk(_head(statement))
            if isinstance(n, ast.Name)}
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Assign) and isinstance(
                node.value, ast.Call) and isinstance(
                    node.value.func, ast.Name)):
            continue
        made = {t.id for t in node.targets if isinstance(t, ast.Name)}
        helper = helpers.get(node.value.func.id)
        if helper is not None and made & used:
            lines = text.splitlines()
            lines.insert(helper.lineno - 1,
                         '@__import__("torch")._dynamo.assume_constant_result')
            yield ("rewrite", f"take what {helper.name} gives as a constant",
                   "\n".join(lines) + "\n")


_NUMPY_RANDOM = {"np.random.uniform": "uniform", "np.random.rand": "random",
                 "np.random.random": "random"}


def _python_random(_: Root, text: str, tree: ast.Module, statement: ast.stmt
                   ) -> Made:
    """One number of NumPy's generator: Dynamo knows Python's."""
    for call in _calls(statement):
        name = _NUMPY_RANDOM.get(segment(text, call.func))
        if name is not None and len(call.args) == 2 * (name == "uniform") \
                and not call.keywords:
            values = ", ".join(segment(text, a) for a in call.args)
            yield ("rewrite", "draw the number from Python's generator",
                   _numbers.with_import(replaced(
                       text, call, f"random.{name}({values})"), "random"))


def _python_arithmetic(_: Root, text: str, tree: ast.Module,
                       statement: ast.stmt) -> Made:
    yield from _numbers.python_arithmetic(text, statement)
    yield from _numbers.python_helper(text, tree, {
        n.id for n in ast.walk(_head(statement)) if isinstance(n, ast.Name)})


def _python_buffers(_: Root, text: str, tree: ast.Module, statement: ast.stmt
                    ) -> Made:
    yield from _numbers.python_buffers(text, tree, statement)


def _python_list(_: Root, text: str, tree: ast.Module, statement: ast.stmt
                 ) -> Made:
    yield from _numbers.python_list(text, _leading_to(tree, statement))


def _leading_to(tree: ast.Module, statement: ast.stmt
                ) -> list[ast.FunctionDef]:
    """The functions of a file that hold a statement, or that call one that
    leads to it by its name."""
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)]
    found = [f for f in functions
             if any(n is statement for n in ast.walk(f))]
    for callee in found:  # grows
        found += [f for f in functions if f not in found and any(
            isinstance(c.func, ast.Name) and c.func.id == callee.name
            for c in _calls(f))]
    return found


_ASKED = {"is_compiling", "is_dynamo_compiling", "is_torchdynamo_compiling"}


def _ungated(_: Root, text: str, tree: ast.Module, statement: ast.stmt
             ) -> Made:
    """A step that is left out while compiling, and that what follows needs:
    taken then too, as it is in an eager run."""
    edits: list[tuple[ast.AST, str]] = []
    for function in _leading_to(tree, statement):
        for node in ast.walk(function):
            if not isinstance(node, ast.If) or not isinstance(
                    node.test, ast.BoolOp) or not isinstance(
                        node.test.op, ast.And):
                continue
            left = [v for v in node.test.values if not _is_gate(v)]
            if 0 < len(left) < len(node.test.values):
                edits.append((node.test, " and ".join(
                    segment(text, v) for v in left)))
    if edits:
        yield ("rewrite", "take the step that is left out while compiling",
               _numbers.edited(text, edits))


def _is_gate(node: ast.expr) -> bool:
    """not is_compiling()"""
    return isinstance(node, ast.UnaryOp) and isinstance(
        node.op, ast.Not) and isinstance(node.operand, ast.Call) \
        and ast.unparse(node.operand.func).split(".")[-1] in _ASKED


ANY: tuple[Maker, ...] = (_gate, _tensor_attribute)
REWRITES: dict[str, tuple[Maker, ...]] = {
    "GB0025": (_leave_out,), "GB4297": (_leave_out,),
    "GB0088": (_ungated,),
    "GB0124": (_keep_tensor, _python_list),
    "GB0170": (_python_arithmetic, _where, _constant, _python_buffers),
    "GB0179": (_clone,), "GB4198": (_clone,),
    "GB0007": (_hoist,), "GB0156": (_hoist,),
    "GB0033": (_python_arithmetic, _python_random, _constant,
               _python_buffers),
}
