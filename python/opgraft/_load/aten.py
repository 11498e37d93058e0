# SPDX-License-Identifier: Apache-2.0
"""A formula as a function of ATen operators.

It is read from the author's text, which is Python's grammar too, and shares
nothing with the row engine. Inductor fuses it, `opgraft.decompositions()` gives
it to torch.export and ONNX, and devices for which there is no kernel run it.
"""

from __future__ import annotations

import ast
import functools
import math
import re
from typing import Any, Callable

import torch

from .._base.hooks import when_imported
from .._base.rules import Description, infer

_CONSTANTS = {
    "half": 0.5, "sqrt_half": math.sqrt(0.5),
    "sqrt_two_over_pi": math.sqrt(2 / math.pi),
    "inverse_sqrt_two_pi": 1 / math.sqrt(2 * math.pi),
    "gelu_cubic": 0.044715, "infinity": math.inf,
}
# Those that are not torch.NAME.
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "max": torch.maximum, "min": torch.minimum, "sign_bit": torch.signbit,
    "is_inf": torch.isinf, "bit_not": torch.bitwise_not,
    "bit_and": torch.bitwise_and, "bit_or": torch.bitwise_or,
    "bit_xor": torch.bitwise_xor, "shift_left": torch.bitwise_left_shift,
    "shift_right": torch.bitwise_right_shift,
    "floor_div": lambda a, b: torch.div(a, b, rounding_mode="floor"),
    "trunc_div": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
    "fma": lambda a, b, c: a * b + c,
    "select": lambda c, a, b: torch.where(c != 0, a, b),
}
_REDUCTIONS: dict[str, Callable[..., Any]] = {
    "row_sum": torch.sum, "row_mean": torch.mean, "row_max": torch.amax,
    "row_min": torch.amin, "row_argmax": torch.argmax,
    "row_argmin": torch.argmin,
}
_OPERATORS: dict[type, Callable[..., Any]] = {
    ast.Add: torch.add, ast.Sub: torch.sub, ast.Mult: torch.mul,
    ast.Div: torch.div, ast.Eq: torch.eq, ast.NotEq: torch.ne,
    ast.Lt: torch.lt, ast.LtE: torch.le, ast.Gt: torch.gt, ast.GtE: torch.ge,
}


@functools.cache
def _statements(row: str) -> list[ast.stmt]:
    if "=" not in re.sub(r"[<>=!]=", "", row):
        row = f"y = {row}"
    row = re.sub(r" if (given\(\w+\)(?: and given\(\w+\))*)\s*(?=;|$)",
                 r" if \1 else 0", row.replace("\n", " "))
    return ast.parse(row.strip().rstrip(";")).body


def can(d: Description) -> bool:
    """Whether the text is one that is read here: nothing is written, checked,
    or part of a row."""
    if not d.tables["row"] or d.mutated or any(p["list"] for p in d.params):
        return False
    try:
        statements = _statements(d.tables["row"])
    except SyntaxError:
        return False
    known = {*_FUNCTIONS, *_REDUCTIONS, "given", "sum_rows", "pick"}
    called = {node.func.id for s in statements for node in ast.walk(s)
              if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    return all(
        isinstance(s, ast.Assign) and isinstance(s.targets[0], ast.Name)
        for s in statements
    ) and all(name in known or hasattr(torch, name) for name in called)


# --- The space ----------------------------------------------------------------


def _items(d: Description, tensor: int) -> list[Any]:
    items: list[Any] = next(p["items"] for p in d.tables["patterns"]
                            if p["tensor"] == tensor)
    return items


def _results(d: Description) -> list[list[Any]]:
    return [_items(d, s["tensor"]) if s["kind"] == "like" else s["items"]
            for s in d.tables["shapes"]]


def _place(space: list[Any], own: list[Any]) -> list[str] | None:
    """For each item of the space: "has", "one" or "lacks"."""
    out = ["lacks"] * len(space)
    k = 0
    for item in own:
        is_one = (item["kind"] == "expr" and item["expr"] == [["const", 1]])
        if is_one and k < len(space) and item != space[k]:
            out[k] = "one"
        else:
            while k < len(space) and item != space[k]:
                k += 1
            if k == len(space):
                return None
            out[k] = "has"
        k += 1
    return out


def _space(d: Description) -> list[Any] | None:
    """The items of the space; None where tensors broadcast."""
    each = [_items(d, t) for t in range(sum(
        p["tensor"] is not None for p in d.params))] + _results(d)
    if any(i["kind"] == "broadcast" for items in each for i in items):
        return None
    return next(s for s in [_results(d)[0], *each]
                if all(_place(s, own) is not None for own in each))


def _aligned(x: torch.Tensor, space: list[Any], place: list[str],
             rank: int) -> torch.Tensor:
    """With a dim of 1 for each that it lacks."""
    own = 0
    for item, what in zip(space, place, strict=True):
        count = rank - (len(space) - 1) if item["kind"] == "pack" else 1
        for _ in range(count):
            if what == "lacks":
                x = x.unsqueeze(own)
            own += 1
    return x


# --- A call -------------------------------------------------------------------


class _Call:
    """Values of names, in what is computed in."""

    def __init__(self, d: Description, values: list[Any]) -> None:
        self.d = d
        self.given = {p["name"]: v is not None
                      for p, v in zip(d.params, values, strict=True)}
        tensors = [v for v in values if isinstance(v, torch.Tensor)]
        self.dtype = self._class(tensors)
        self.space = _space(d)
        self.rank = max(t.dim() for t in tensors)
        if self.space and all(i["kind"] != "pack" for i in self.space):
            self.rank = len(self.space)
        self.names: dict[str, Any] = {
            p["name"]: self._operand(p, v)
            for p, v in zip(d.params, values, strict=True) if v is not None}
        self.shape = torch.broadcast_shapes(*(
            v.shape for v in self.names.values() if isinstance(v, torch.Tensor)))

    def _class(self, tensors: list[torch.Tensor]) -> torch.dtype:
        dtypes = {t.dtype for t in tensors}
        if torch.float64 in dtypes:
            return torch.float64
        if any(t.is_floating_point for t in dtypes):
            return torch.float32
        text = self.d.tables["row"]
        return torch.float64 if "/" in text or "." in text else torch.int64

    def _operand(self, p: dict[str, Any], value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        value = value.to(self.dtype)
        if self.space is None:
            return value
        place = _place(self.space, _items(self.d, p["tensor"]))
        assert place is not None
        return _aligned(value, self.space, place, self.rank)

    def tensor(self, value: Any) -> torch.Tensor:
        if isinstance(value, torch.Tensor):
            return value.to(self.dtype)
        first = next(v for v in self.names.values()
                     if isinstance(v, torch.Tensor))
        return first.new_full((), value)

    def full(self, value: Any) -> torch.Tensor:
        return self.tensor(value).expand(self.shape)

    # --- Expressions ---

    def value(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            if node.id in _PLACES and node.id not in self.names:
                return _PLACES[node.id](self)
            return (self.names[node.id] if node.id in self.names
                    else _CONSTANTS[node.id])
        if isinstance(node, ast.UnaryOp):
            own = self.value(node.operand)
            return (-own if isinstance(node.op, ast.USub)
                    else self.tensor(self.tensor(own) == 0))
        if isinstance(node, ast.BoolOp):
            parts = [self.tensor(self.value(v)) != 0 for v in node.values]
            join = (torch.logical_and if isinstance(node.op, ast.And)
                    else torch.logical_or)
            return self.tensor(functools.reduce(join, parts))
        if isinstance(node, ast.BinOp):
            return self.apply(_OPERATORS[type(node.op)],
                              node.left, node.right)
        if isinstance(node, ast.Compare):
            return self.apply(_OPERATORS[type(node.ops[0])], node.left,
                              node.comparators[0])
        assert isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        return self.call(node.func.id, node.args)

    def apply(self, function: Callable[..., Any], *nodes: ast.expr
              ) -> torch.Tensor:
        return self.tensor(function(*(self.tensor(self.value(n))
                                      for n in nodes)))

    def call(self, name: str, nodes: list[ast.expr]) -> Any:
        if name == "given":
            assert isinstance(nodes[0], ast.Name)
            return int(self.given[nodes[0].id])
        if name in _REDUCTIONS:
            return self.tensor(_REDUCTIONS[name](
                self.full(self.value(nodes[0])), -1, keepdim=True))
        if name == "pick":
            x, index = (self.value(n) for n in nodes)
            return torch.where(_PLACES["column"](self) == index, self.full(x),
                               0).sum(-1, keepdim=True)
        if name == "sum_rows":
            return self.value(nodes[0])
        function = _FUNCTIONS.get(name) or getattr(torch, name)
        if len(nodes) > 2 and name in ("max", "min"):
            return functools.reduce(
                function, (self.tensor(self.value(n)) for n in nodes))
        return self.apply(function, *nodes)

    # --- Statements ---

    def run(self) -> None:
        for s in _statements(self.d.tables["row"]):
            assert isinstance(s, ast.Assign) and isinstance(s.targets[0], ast.Name)
            if self._is_there(s.value):
                node = s.value.body if isinstance(s.value, ast.IfExp) else s.value
                self.names[s.targets[0].id] = self.value(node)

    def _is_there(self, node: ast.expr) -> bool:
        """Whether nothing that it names is absent; given(x) alone names not."""
        if isinstance(node, ast.IfExp):
            asked = [n.id for n in ast.walk(node.test) if isinstance(n, ast.Name)
                     and n.id != "given"]
            return (all(self.given[name] for name in asked)
                    and self._is_there(node.body))
        inner = {id(n) for c in ast.walk(node) if isinstance(c, ast.Call)
                 and isinstance(c.func, ast.Name) and c.func.id == "given"
                 for n in ast.walk(c)}
        return all(self.given.get(n.id, True) for n in ast.walk(node)
                   if isinstance(n, ast.Name) and id(n) not in inner)

    def result(self, name: str, items: list[Any], like: torch.Tensor
               ) -> torch.Tensor:
        value = self.tensor(self.names[name])
        if self.space is None:
            return value.expand(self.shape).sum_to_size(like.shape)
        place = _place(self.space, items)
        assert place is not None
        if place[-1:] == ["lacks"] and self.space[-1]["kind"] != "pack":
            value = self.tensor(value).expand(*self.shape[:-1], 1)
        else:
            value = self.full(value)
        at = 0
        added: list[int] = []
        for item, what in zip(self.space, place, strict=True):
            count = (len(self.shape) - (len(self.space) - 1)
                     if item["kind"] == "pack" else 1)
            added += range(at, at + count) if what != "has" else []
            at += count
        return (value.sum(added) if added else value).reshape(like.shape)


def _counted(call: _Call, dim: int) -> torch.Tensor:
    """0, 1, ... along a dim from the end."""
    first = next(v for v in call.names.values() if isinstance(v, torch.Tensor))
    size = call.shape[-dim] if len(call.shape) >= dim else 1
    return torch.arange(size, device=first.device, dtype=call.dtype
                        ).reshape(-1, *[1] * (dim - 1))


_PLACES: dict[str, Callable[[_Call], Any]] = {
    "width": lambda call: call.shape[-1],
    "column": lambda call: _counted(call, 1),
    "row": lambda call: _counted(call, 2),
}


def _result_names(d: Description) -> list[str]:
    letter = "out" if any(p["name"] == "y" for p in d.params) else "y"
    return [r["name"] or (letter if len(d.results) == 1 else f"{letter}{k}")
            for k, r in enumerate(d.results)]


def function(d: Description) -> Callable[..., Any]:
    """The formula over tensors of any kind."""
    def run(*args: Any, **kwargs: Any) -> Any:
        values = d.bind(args, kwargs)
        call = _Call(d, values)
        call.run()
        out = tuple(
            call.result(name, items, like).to(like.dtype).contiguous()
            for name, items, like in zip(_result_names(d), _results(d),
                                         infer(d, values), strict=True))
        return out if len(out) > 1 else out[0]

    return run


# --- Who asks for it ------------------------------------------------------------

_known: dict[Any, Callable[..., Any]] = {}  # by overload


def decompositions() -> dict[Any, Callable[..., Any]]:
    """Every formula that is defined or loaded, as a function of ATen operators,
    by its operator: what `ExportedProgram.run_decompositions` takes. A call of
    one raises what ATen raises.

        >>> f = opgraft.define("half_of(Tensor x) -> Tensor", row="x / 2")
        >>> table = opgraft.decompositions()
        >>> table[torch.ops.formulas.half_of.default](torch.ones(2))
        tensor([0.5000, 0.5000])
    """
    return dict(_known)


def register(d: Description, overload: Any, undo: list[Callable[[], None]]
             ) -> Callable[..., Any]:
    """Tells Inductor, and `decompositions`, of what `can` be said so."""
    made = _known[overload] = function(d)

    def tell() -> None:
        from torch._inductor import decomposition

        tables = [decomposition.decompositions,
                  decomposition.fast_random_decomps()]  # a copy, made once
        for table in tables:
            table[overload] = made

        def forget() -> None:
            for table in tables:
                table.pop(overload, None)

        undo.append(forget)

    undo.append(functools.partial(_known.__delitem__, overload))
    when_imported("torch._inductor.decomposition", tell, undo)
    return made
