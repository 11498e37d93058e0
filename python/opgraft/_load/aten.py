# SPDX-License-Identifier: Apache-2.0
"""A formula or a reference as a function of ATen operators.

It is read from the author's text, which is Python's grammar too, and shares
nothing with the row engine. Inductor fuses a formula, `opgraft.decompositions()`
gives it to torch.export and ONNX. Devices for which there is no kernel run both.
"""

from __future__ import annotations

import ast
import functools
import math
import re
from typing import Any, Callable, Collection, Sequence

import torch

from .._base import host
from .._base.hooks import when_imported
from .._base.rules import Description, infer, scope_of

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
_RUNNING: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "row_cumsum": lambda x: x.cumsum(-1),
    "row_cumsum_reversed": lambda x: x.flip(-1).cumsum(-1).flip(-1),
}
# Types that C's row engine does not know.
_WIDE = {torch.float64, torch.uint16, torch.uint32, torch.uint64}
_TYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32,
          "f64": torch.float64}
# What names the halves of a last dim, and puts them together.
_PARTS: dict[str, Callable[[torch.Tensor], tuple[torch.Tensor, ...]]] = {
    "halves": lambda x: (x[..., :x.shape[-1] // 2],
                         x[..., x.shape[-1] // 2:]),
    "pairs": lambda x: (x[..., ::2], x[..., 1::2]),
}
_JOINS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "join": lambda a, b: torch.cat((a, b), -1),
    "interleave": lambda a, b: torch.stack((a, b), -1).flatten(-2),
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
    """Whether the text is one that is read here: nothing is written or
    checked."""
    if not d.tables["row"] or d.mutated or any(p["list"] for p in d.params):
        return False
    try:
        statements = _statements(d.tables["row"])
    except SyntaxError:
        return False
    known = {*_FUNCTIONS, *_REDUCTIONS, *_RUNNING, *_PARTS, *_JOINS, "given",
             "sum_rows", "add_rows", "pick", "round_to"}
    called = {node.func.id for s in statements for node in ast.walk(s)
              if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    return (all(isinstance(s, ast.Assign) for s in statements)
            and all(name in known or hasattr(torch, name) for name in called))


# --- The space ----------------------------------------------------------------


def _calls(node: ast.AST, names: Collection[str]) -> list[ast.Call]:
    return [n for n in ast.walk(node) if isinstance(n, ast.Call)
            and isinstance(n.func, ast.Name) and n.func.id in names]


def _items(d: Description, tensor: int) -> list[Any]:
    items: list[Any] = next(p["items"] for p in d.tables["patterns"]
                            if p["tensor"] == tensor)
    return items


def _results(d: Description) -> list[list[Any]]:
    return [_items(d, s["tensor"]) if s["kind"] == "like" else s["items"]
            for s in d.tables["shapes"]]


def _is_one(item: dict[str, Any]) -> bool:
    return bool(item["kind"] == "expr" and item["expr"] == [["const", 1]])


def _place(space: list[Any], own: list[Any]) -> list[str] | None:
    """For each item of the space: "has", "one" or "lacks"."""
    out = ["lacks"] * len(space)
    k = 0
    for item in own:
        if _is_one(item) and k < len(space) and item != space[k]:
            out[k] = "one"
        else:
            while k < len(space) and item != space[k]:
                k += 1
            if k == len(space):
                return None
            out[k] = "has"
        k += 1
    return out


class _Space:
    """The dims that a formula runs over, and those that each operand has: by
    name, arguments and results apart."""

    def __init__(self, d: Description) -> None:
        statements = _statements(d.tables["row"])
        wide = {n.id for s in statements for c in _calls(s, _PARTS)
                for n in c.args if isinstance(n, ast.Name)}
        self.tables = {n.value.id for s in statements for n in ast.walk(s)
                       if isinstance(n, ast.Subscript)
                       and isinstance(n.value, ast.Name)}
        self.named = {n.id for s in statements for n in ast.walk(s)
                      if isinstance(n, ast.Name)}
        self.args = {p["name"]: _items(d, p["tensor"]) for p in d.params
                     if p["tensor"] is not None and p["name"] in self.named}
        self.results = dict(zip(_result_names(d), _results(d), strict=True))
        self.wide = wide | self._assigned(statements, _JOINS)
        self.items: list[Any] | None = None
        each = [*self.results.values(), *self.args.values()]
        if any(i["kind"] == "broadcast" for items in each for i in items):
            return
        row = self._row()
        added = self._assigned(statements, ("add_rows",))
        for of, cut in ((self.args, self.tables), (self.results, added)):
            for name, items in of.items():
                of[name] = ([*items[:-1], row] if name in self.wide
                            else items[1:] if name in cut else items)
        each = [*self.results.values(), *self.args.values()]
        self.items = next(s for s in each
                          if all(_place(s, own) is not None for own in each))

    @staticmethod
    def _assigned(statements: list[ast.stmt], by: Collection[str]) -> set[str]:
        return {s.targets[0].id for s in statements
                if isinstance(s, ast.Assign) and _calls(s.value, by)
                and isinstance(s.targets[0], ast.Name)}

    def _row(self) -> Any:
        """The row's item, where some operands have two rows in their last
        dim."""
        named = [*self.results.items(), *self.args.items()]
        wide = next((items for name, items in reversed(named)
                     if name in self.wide), [])
        for name, items in named:
            if (name not in self.wide and items and items[-1]["kind"] != "pack"
                    and not _is_one(items[-1]) and items[-1] not in wide[:-1]):
                return items[-1]
        return wide[-1] if wide else None

    def places(self, own: list[Any], rank: int) -> list[str]:
        """What `_place` says, for each dim."""
        assert self.items is not None
        place = _place(self.items, own)
        assert place is not None
        count = rank - (len(self.items) - 1)  # of a pack
        return [what for item, what in zip(self.items, place, strict=True)
                for _ in range(count if item["kind"] == "pack" else 1)]

    def spread(self, own: list[Any], sizes: list[Any], rank: int) -> list[Any]:
        """Sizes with a 1 for each dim that is lacking."""
        left = iter(sizes)
        return [1 if what == "lacks" else next(left)
                for what in self.places(own, rank)]


# --- A call -------------------------------------------------------------------


class _Call:
    """Values of names, in what is computed in."""

    def __init__(self, d: Description, values: list[Any],
                 likes: list[torch.Tensor]) -> None:
        self.d = d
        self.given = {p["name"]: v is not None
                      for p, v in zip(d.params, values, strict=True)}
        self.tensors = {p["name"]: v
                        for p, v in zip(d.params, values, strict=True)
                        if isinstance(v, torch.Tensor)}
        self.space = _Space(d)
        self.dtype = self._class(likes + [
            v for p, v in zip(d.params, values, strict=True)
            if p["name"] in self.space.named])
        # One that no statement names may say how large a result is.
        self.tensors = {k: v for k, v in self.tensors.items()
                        if k in self.space.args}
        self.rank = self._rank()
        self.shape = torch.broadcast_shapes(*map(self._sizes, self.tensors))
        self.names: dict[str, Any] = {
            p["name"]: v for p, v in zip(d.params, values, strict=True)
            if v is not None}
        for name, x in self.tensors.items():
            if name not in self.space.wide | self.space.tables:
                self.names[name] = self._aligned(name, x)
        self.run()

    def _rank(self) -> int:
        """Of the space, by an operand that has its pack."""
        items = self.space.items
        if items is None:
            return max(x.dim() for x in self.tensors.values())
        for name, x in self.tensors.items():
            own = self.space.args[name]
            if any(i["kind"] == "pack" for i in own):
                return (x.dim() - (name in self.space.tables) - len(own)
                        + len(items))
        return len(items)

    def _sizes(self, name: str) -> list[Any]:
        """Of an argument in the space."""
        sizes = list(self.tensors[name].shape)
        if self.space.items is None:
            return sizes
        if name in self.space.wide:
            sizes[-1] = sizes[-1] // 2
        if name in self.space.tables:
            sizes = sizes[1:]
        return self.space.spread(self.space.args[name], sizes, self.rank)

    def _aligned(self, name: str, x: torch.Tensor) -> torch.Tensor:
        x = x.to(self.dtype)
        return x if self.space.items is None else x.reshape(self._sizes(name))

    def _rows(self, table: torch.Tensor, own: list[Any], index: str
              ) -> tuple[torch.Tensor, ...]:
        """What chooses elements of a table, by dim of it."""
        sizes = self.space.spread(own, list(table.shape[1:]), self.rank)
        chosen = [self.tensors[index].long().reshape(self._sizes(index))]
        for k, what in enumerate(self.space.places(own, self.rank)):
            if what == "lacks":
                continue
            chosen.append(torch.arange(sizes[k], device=table.device).reshape(
                *[1] * k, -1, *[1] * (self.rank - k - 1)))
        return tuple(chosen)

    def _class(self, own: list[Any]) -> torch.dtype:
        """What C computes in (class_of of src/decl/formula_program.c)."""
        given = {t.dtype for t in own if isinstance(t, torch.Tensor)}
        floats = {t for t in given if t.is_floating_point}
        if (self.d.tables["computes_in_integers"] and not floats
                and torch.uint64 not in given
                and not any(isinstance(v, float) for v in own)):
            return torch.int64
        return torch.float32 if floats and not given & _WIDE else torch.float64

    def tensor(self, value: Any) -> torch.Tensor:
        if isinstance(value, torch.Tensor):
            return value.to(self.dtype)
        first = next(iter(self.tensors.values()))
        return first.new_full((), value, dtype=self.dtype)

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
        if isinstance(node, ast.Subscript):
            assert (isinstance(node.value, ast.Name)
                    and isinstance(node.slice, ast.Name))
            name = node.value.id
            table = self.tensors[name].to(self.dtype)
            return table[self._rows(table, self.space.args[name],
                                    node.slice.id)]
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
        if name in _RUNNING:
            return _RUNNING[name](self.full(self.value(nodes[0])))
        if name in _JOINS or name == "add_rows":
            return name, nodes
        if name == "round_to":
            assert isinstance(nodes[1], ast.Name)
            of = nodes[1].id
            dtype = (self.tensors[of].dtype if of in self.tensors
                     else _TYPES[of])
            x = self.tensor(self.value(nodes[0]))
            return (x.to(dtype).to(self.dtype) if dtype.is_floating_point
                    else x)
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
            assert isinstance(s, ast.Assign)
            if not self._is_there(s.value):
                continue
            node = s.value.body if isinstance(s.value, ast.IfExp) else s.value
            target = s.targets[0]
            if isinstance(target, ast.Name):
                self.names[target.id] = self.value(node)
                continue
            assert (isinstance(target, ast.Tuple) and isinstance(node, ast.Call)
                    and isinstance(node.func, ast.Name)
                    and isinstance(node.args[0], ast.Name))
            name = node.args[0].id
            parts = _PARTS[node.func.id](self.tensors[name])
            for own, part in zip(target.elts, parts, strict=True):
                assert isinstance(own, ast.Name)
                self.names[own.id] = self._aligned(name, part)

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

    def result(self, name: str, like: torch.Tensor) -> torch.Tensor:
        own = self.names[name]
        if isinstance(own, tuple) and own[0] == "add_rows":
            return self._added(name, own[1], like)
        if isinstance(own, tuple):
            size = (*like.shape[:-1], like.shape[-1] // 2)
            return _JOINS[own[0]](*(
                self._reduced(name, self.value(node), size) for node in own[1]))
        return self._reduced(name, own, like.shape)

    def _added(self, name: str, nodes: list[ast.expr], like: torch.Tensor
               ) -> torch.Tensor:
        """Values to rows: pairs of a value and an index."""
        first = next(iter(self.tensors.values()))
        out = first.new_zeros(like.shape, dtype=self.dtype)
        own = self.space.results[name]
        has_row = self.space.places(own, self.rank)[-1] != "lacks"
        size = self.shape if has_row else (*self.shape[:-1], 1)
        for value, index in zip(nodes[::2], nodes[1::2], strict=True):
            assert isinstance(index, ast.Name)
            rows = [r.expand(size) for r in self._rows(out, own, index.id)]
            out = out.index_put(rows, self.tensor(self.value(value)).expand(size),
                                accumulate=True)
        return out

    def _reduced(self, name: str, value: Any, size: Sequence[Any]
                 ) -> torch.Tensor:
        value = self.tensor(value)
        if self.space.items is None:
            return value.expand(self.shape).sum_to_size(size)
        places = self.space.places(self.space.results[name], self.rank)
        if self.space.items[-1]["kind"] != "pack" and places[-1] != "has":
            value = value.expand(*self.shape[:-1], 1)
        else:
            value = self.full(value)
        added = [k for k, what in enumerate(places) if what != "has"]
        return (value.sum(added) if added else value).reshape(size)


def _counted(call: _Call, dim: int) -> torch.Tensor:
    """0, 1, ... along a dim from the end."""
    first = next(iter(call.tensors.values()))
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


# --- References ---------------------------------------------------------------

_OVER = "sum", "mean", "prod", "amax", "amin"


@functools.cache
def _expressions(reference: str) -> list[ast.expr]:
    return [ast.parse(text.strip(), mode="eval").body for text in
            reference.replace("\n", " ").split(";")]


class _Reference(_Call):
    """Every value has an axis for each dim of the declaration, of size 1 where
    it does not depend on it. A pack of dims is one axis."""

    def __init__(self, d: Description, values: list[Any],
                 likes: list[torch.Tensor]) -> None:
        self.d = d
        self.dtype = self._class([*values, *likes])
        found = scope_of(d, values).dims
        self.at = {dim["name"]: k for k, dim in enumerate(d.tables["dims"])}
        self.sizes = [math.prod(n) if isinstance(n, tuple) else n
                      for n in (found.get(k, 1) for k in self.at.values())]
        given = {p["name"]: v for p, v in zip(d.params, values, strict=True)}
        self.tensors = {name: v for name, v in given.items()
                        if isinstance(v, torch.Tensor)}
        self.names = dict(zip(self.at, self.sizes, strict=True)) | given

    def _axes(self, dims: Collection[int]) -> list[Any]:
        return [n if k in dims else 1 for k, n in enumerate(self.sizes)]

    def value(self, node: ast.expr) -> Any:
        name = node.id if isinstance(node, ast.Name) else ""
        own = next((p["tensor"] for p in self.d.params if p["name"] == name), None)
        if own is None:
            return super().value(node)
        dims = [i["dim"] for i in _items(self.d, own)]
        if name not in self.tensors:  # one that is absent counts 0
            return self.tensor(0).expand(self._axes(dims))
        x = self.tensor(self.tensors[name]).reshape([self.sizes[k] for k in dims])
        return torch.einsum(x, dims, sorted({*dims})).reshape(self._axes(dims))

    def call(self, name: str, nodes: list[ast.expr]) -> Any:
        over = [self.at[n.id] for n in nodes[name != "index":]
                if isinstance(n, ast.Name) and n.id in self.at]
        if name == "index":
            size, first = self.sizes[over[0]], next(iter(self.tensors.values()))
            return torch.arange(size, dtype=self.dtype, device=first.device
                                ).reshape(self._axes(over))
        if name in _OVER:
            return functools.reduce(
                lambda x, k: getattr(torch, name)(x, k, keepdim=True), over,
                self.value(nodes[0]))
        return super().call(name, nodes)

    def result(self, name: str, like: torch.Tensor) -> torch.Tensor:
        k = _result_names(self.d).index(name)
        dims = [i["dim"] for i in _results(self.d)[k]]
        value = self.value(_expressions(self.d.tables["reference"])[k])
        x = self.tensor(value).expand(self._axes(dims)).reshape(
            [self.sizes[k] for k in sorted(dims)])
        return torch.einsum(x, sorted(dims), dims).reshape(like.shape)


def function(d: Description, kind: type[_Call] = _Call) -> Callable[..., Any]:
    """The formula, or the reference, over tensors of any kind."""
    def run(*args: Any, **kwargs: Any) -> Any:
        values = d.bind(args, kwargs)
        likes = infer(d, values)
        call = kind(d, values, likes)
        out: list[torch.Tensor] = []
        for name, like in zip(_result_names(d), likes, strict=True):
            y = call.result(name, like).to(like.dtype).contiguous()
            shared = [t for t in (*values, *out) if isinstance(t, torch.Tensor)
                      and torch._C._is_alias_of(t, y)]
            out.append(y.clone() if shared else y)
        return tuple(out) if len(out) > 1 else out[0]

    return run


def reference(d: Description, op: Any) -> Callable[..., Any] | None:
    """The reference, where there is one. On a device that opgraft drives, the
    CPU's kernel runs, on copies."""
    text = d.tables["reference"]
    if text is None or "round_to(" in text or d.numbers:
        return None
    made = function(d, _Reference)

    def run(*args: Any, **kwargs: Any) -> Any:
        device = next(v.device.type for v in (*args, *kwargs.values())
                      if isinstance(v, torch.Tensor))
        if device in host.on_copies:
            return host.on_copies[device](op.overload, *args, **kwargs)
        return made(*args, **kwargs)

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
    undo.append(functools.partial(_known.__delitem__, overload))
    # Inductor drops conversions to a type and back: it calls the operator.
    if any(_calls(s, ("round_to",)) for s in _statements(d.tables["row"])):
        return made

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

    when_imported("torch._inductor.decomposition", tell, undo)
    return made
