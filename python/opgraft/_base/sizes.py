# SPDX-License-Identifier: Apache-2.0
"""A declaration's shape rule over sizes that may be symbols. The C library
evaluates the same tables on integers (src/decl/infer). Imports no host."""

from __future__ import annotations

from typing import Any, Callable

from .counted import counted
from .tables import Description

Size = Any  # int or a host's symbol


class Poison:
    """A value that could not be computed: it spreads to what needs it, and is
    an error where nothing discards it. src/decl/infer/eval.c does the same."""

    def __init__(self, why: str) -> None:
        self.why = why


_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "floor_div": lambda a, b: a // b,
    "ceil_div": lambda a, b: -((-a) // b),
    "mod": lambda a, b: a % b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}


def _product(sizes: Any) -> Size:
    result: Size = 1
    for size in sizes:
        result = result * size
    return result


class Scope:
    """The sizes of one call: what its names stand for.

    Sizes may be a host's symbols; a subclass says how they are computed with.
    """

    error: type[Exception] = ValueError

    def __init__(
        self, d: Description, tensors: list[Any], attrs: list[Any]
    ) -> None:
        self.d = d
        self.tensors = tensors
        self.attrs = attrs
        self.dims: dict[int, Any] = {}  # size, tuple (pack), list (varying)

    # --- What a host with symbols changes ---

    def is_known(self, truth: Any) -> bool:
        """Whether it is true or false now."""
        return isinstance(truth, bool)

    def as_int(self, value: Any) -> Size:
        return int(value) if isinstance(value, bool) else value

    def as_bool(self, value: Any) -> Any:
        return value if isinstance(value, bool) else value != 0

    def negated(self, truth: Any) -> Any:
        return not truth

    def choose(self, truth: Any, a: Any, b: Any) -> Any:
        return a if truth else b

    def least(self, a: Any, b: Any) -> Any:
        return min(a, b)

    def most(self, a: Any, b: Any) -> Any:
        return max(a, b)

    def check(self, holds: Any, text: Callable[[], str]) -> None:
        """Raises, or has the host see to it, where it does not hold."""
        if not holds:
            self._fail(text())

    def broadcast(self, packs: list[Any]) -> tuple[Size, ...]:
        raise NotImplementedError

    def new_size(self, bound: Size) -> Size:
        """One that values decide, at most `bound`."""
        raise NotImplementedError

    def item_bytes(self, value: Any) -> int:
        """Of a tensor's elements, or a list's; 0 for none."""
        raise NotImplementedError

    # --- Expressions ---

    def _binary(self, op: str, a: Any, b: Any) -> Any:
        for value in (a, b):
            if isinstance(value, Poison):
                return value
        a, b = self.as_int(a), self.as_int(b)
        if op in ("floor_div", "ceil_div", "mod") and isinstance(b, int) \
                and b == 0:
            return Poison("a division by zero")
        if op in ("min", "max"):
            return self.least(a, b) if op == "min" else self.most(a, b)
        return _BINARY[op](a, b)

    def _unary(self, op: str, a: Any) -> Any:
        if isinstance(a, Poison):
            return a
        return -self.as_int(a) if op == "neg" else self.negated(self.as_bool(a))

    def _both(self, a: Any, b: Any, is_and: bool) -> Any:
        if isinstance(a, Poison):
            return a
        a = self.as_bool(a)
        if self.is_known(a):
            return ((b if isinstance(b, Poison) else self.as_bool(b))
                    if a == is_and else a)
        if isinstance(b, Poison):
            return b
        return (a & self.as_bool(b)) if is_and else (a | self.as_bool(b))

    def _select(self, c: Any, a: Any, b: Any) -> Any:
        if isinstance(c, Poison):
            return c
        c = self.as_bool(c)
        if self.is_known(c):
            return a if c else b
        for value in (a, b):
            if isinstance(value, Poison):
                return value
        return self.choose(c, self.as_int(a), self.as_int(b))

    def _dim(self, index: int) -> Size:
        value = self.dims.get(index, 0)
        if isinstance(value, tuple):
            return _product(value)
        if isinstance(value, list):
            return sum(value)
        return value

    def _sign(self, slot: int, number: float) -> Any:
        """Of a float argument less a number; an absent argument counts 0."""
        attr = self.attrs[slot]
        value = 0.0 if attr is None else float(attr)
        if value != value:
            return Poison("an argument that is NaN")
        return (value > number) - (value < number)

    def _push(self, op: str, slot: int, index: Size) -> Any:
        attr = self.attrs[slot] if op.startswith(("attr", "given_a")) else None
        if op == "dim":
            return self._dim(slot)
        if op == "attr":
            return 0 if attr is None else self.as_int(attr)
        if op == "attr_len":
            return 0 if attr is None else len(attr)
        if op == "attr_prod":
            return _product(attr or ())
        if op == "attr_sum":
            return sum(attr or ())
        if op == "list_len":
            return len(self.tensors[slot])
        if op == "pack_rank":
            return len(self.dims.get(slot, ()))
        if op == "given_tensor":
            return int(self.tensors[slot] is not None)
        if op == "given_attr":
            return int(attr is not None)
        if op == "item_bytes":
            return self.item_bytes(self.tensors[slot])
        if op == "index":
            return index
        raise AssertionError(op)

    def value(self, expr: list[list[Any]], index: Size = 0) -> Any:
        stack: list[Any] = []
        for op, *slot in expr:
            if op == "const":
                stack.append(slot[0])
            elif op in _BINARY or op in ("min", "max"):
                b = stack.pop()
                stack.append(self._binary(op, stack.pop(), b))
            elif op in ("and", "or"):
                b = stack.pop()
                stack.append(self._both(stack.pop(), b, op == "and"))
            elif op in ("not", "neg"):
                stack.append(self._unary(op, stack.pop()))
            elif op == "select":
                b, a = stack.pop(), stack.pop()
                stack.append(self._select(stack.pop(), a, b))
            elif op == "float_sign":
                stack.append(self._sign(*slot))
            elif op in ("attr_at", "pack_at", "vary_at"):
                stack.append(self._entry(op, slot[0], stack.pop()))
            else:
                stack.append(self._push(op, slot[0] if slot else 0, index))
        if isinstance(stack[0], Poison):
            self._fail(f"a size cannot be computed: {stack[0].why}")
        return stack[0]

    def _entry(self, op: str, slot: int, at: Any) -> Any:
        """Entry `at` of an int[] argument, of a pack, or of a varying dim."""
        if isinstance(at, Poison):
            return at
        known = self.attrs[slot] if op == "attr_at" else self.dims.get(slot)
        entries = known or ()
        count = len(entries)
        if not -count <= at < count:
            return Poison(f"entry {at} of {count}")
        return entries[at]

    # --- Arguments ---

    def _fail(self, text: str) -> None:
        raise self.error(f"{self.d.name}: {text}")

    def _same(self, found: Size, wanted: Size, text: str) -> None:
        self.check(found == wanted,
                   lambda: f"{text}: found {found}, expected {wanted}")

    def _bind(self, dim: int, value: Any, text: str) -> None:
        if dim not in self.dims:
            self.dims[dim] = value
            return
        known = self.dims[dim]
        if not isinstance(value, tuple):
            self._same(value, known, text)
            return
        if len(value) != len(known):
            self._fail(
                f"{text}: found {counted(len(value), 'dim')}, expected {len(known)}")
        for a, b in zip(value, known, strict=False):
            self._same(a, b, text)

    def _width(self, item: dict[str, Any]) -> int | None:
        """How many dims an item stands for; None: what is left."""
        kind = item["kind"]
        if kind == "pack":
            known = self.dims.get(item["dim"])
            return None if known is None else len(known)
        if kind in ("dim", "vary", "expr"):
            return 1
        return len(self._pack(item))

    def _spans(
        self, items: list[dict[str, Any]], rank: int, text: str
    ) -> list[tuple[int, int]]:
        widths = [self._width(item) for item in items]
        picks = [i for i, item in enumerate(items) if item.get("pick") is not None]
        if picks:
            at = picks[0]
            where = self.attrs[items[at]["pick"]]
            if not -rank <= where < rank:
                self._fail(f"{text}: dim {where} is not one of {rank} dims")
            where %= rank
            before = sum(w for w in widths[:at] if w is not None)
            after = sum(w for w in widths[at + 1:] if w is not None)
            widths = [
                w if w is not None
                else (where - before if i < at else rank - 1 - where - after)
                for i, w in enumerate(widths)
            ]
        fixed = sum(w for w in widths if w is not None)
        sizes = [rank - fixed if w is None else w for w in widths]
        if sum(sizes) != rank or min(sizes, default=0) < 0:
            self._fail(f"{text}: found {rank} dims")
        spans, start = [], 0
        for width in sizes:
            spans.append((start, start + width))
            start += width
        return spans

    def _match(self, pattern: dict[str, Any], shape: Any, entry: int) -> None:
        text = pattern["text"]
        items = pattern["items"]
        spans = self._spans(items, len(shape), text)
        for item, (begin, end) in zip(items, spans, strict=False):
            kind = item["kind"]
            if kind == "pack":
                self._bind(item["dim"], tuple(shape[begin:end]), text)
            elif kind == "dim":
                self._bind(item["dim"], shape[begin], text)
            elif kind == "vary":
                known = self.dims.setdefault(item["dim"], [])
                if entry < len(known):
                    self._same(shape[begin], known[entry], text)
                else:
                    known.append(shape[begin])
            elif kind == "expr":
                self._late.append((shape[begin], item["expr"], text))
            else:
                for found, wanted in zip(shape[begin:end], self._pack(item), strict=False):
                    self._same(found, wanted, text)

    def match(self) -> None:
        self._late: list[tuple[Size, Any, str]] = []
        for pattern in self.d.tables["patterns"]:
            value = self.tensors[pattern["tensor"]]
            entries = value if pattern["list"] else [value]
            for entry, tensor in enumerate(entries or ()):
                if tensor is not None:
                    self._match(pattern, tensor.shape, entry)
        for found, expr, text in self._late:
            self._same(found, self.value(expr), text)
        for condition in self.d.tables["conditions"]:
            holds = self.as_bool(self.value(condition["expr"]))
            text = f"where {condition['text']} does not hold"
            self.check(holds, lambda text=text: text)  # type: ignore[misc]

    # --- Results ---

    def _axes(self, item: dict[str, Any]) -> tuple[Any, list[int]]:
        """A pack, and the dims of it that an argument names, from 0 on."""
        pack = self.dims.get(item["pack"], ())
        axes = self.attrs[item["attr"]]
        if isinstance(axes, int):
            axes = [axes]
        rank, found = len(pack), []
        for axis in axes or ():
            if not -rank <= axis < rank:
                self._fail(f"dim {axis} of {rank} dims")
            if axis % rank in found:
                self._fail(f"dim {axis} is named twice, expected each once")
            found.append(axis % rank)
        return pack, found

    def _inserted(self, item: dict[str, Any], index: Size) -> tuple[Size, ...]:
        pack = tuple(self.dims.get(item["pack"], ()))
        at, rank = self.attrs[item["attr"]], len(pack)
        if not -rank - 1 <= at <= rank:
            self._fail(f"place {at} among {rank} dims")
        at %= rank + 1
        size = self.as_int(self.value(item["expr"], index))
        return (*pack[:at], size, *pack[at:])

    def _pack(self, item: dict[str, Any], index: Size = 0) -> tuple[Size, ...]:
        kind = item["kind"]
        if kind == "attr_pack":
            return tuple(self.attrs[item["attr"]] or ())
        if kind == "broadcast":
            return self.broadcast([self.dims.get(p, ()) for p in item["packs"]])
        if kind == "insert":
            return self._inserted(item, index)
        pack, axes = self._axes(item)
        if kind == "permute":
            if len(axes) != len(pack):
                self._fail(f"found {counted(len(axes), 'dim')}, expected "
                           f"{len(pack)}, each once")
            return tuple(pack[a] for a in axes)
        chosen = axes or range(len(pack))
        if kind == "drop":
            return tuple(s for i, s in enumerate(pack) if i not in chosen)
        return tuple(1 if i in chosen else s for i, s in enumerate(pack))

    def sizes(self, items: list[dict[str, Any]], index: Size = 0) -> list[Size]:
        out: list[Size] = []
        for item in items:
            kind = item["kind"]
            if kind == "pack":
                out.extend(self.dims.get(item["dim"], ()))
            elif kind == "dim":
                out.append(self._dim(item["dim"]))
            elif kind == "expr":
                out.append(self.as_int(self.value(item["expr"], index)))
            elif kind == "found":
                out.append(self._found(item))
            else:
                out.extend(self._pack(item, index))
        return out

    def _found(self, item: dict[str, Any]) -> Size:
        """A data-dependent size, one symbol for each name."""
        if item["dim"] not in self.dims:
            bound = self.value(item["expr"])
            self.dims[item["dim"]] = self.new_size(bound)
        return self.dims[item["dim"]]
