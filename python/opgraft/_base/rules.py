# SPDX-License-Identifier: Apache-2.0
"""A declaration's rules over symbolic sizes: one function for every operator.

The C library evaluates the same tables on integers (src/decl/infer.c); the
tables come as JSON from opgraft_op_describe, whose fields are listed on top of
src/decl/describe.c.
"""

from __future__ import annotations

import json
import struct
from typing import Any, Callable

import torch

DTYPES = {
    "f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32,
    "f64": torch.float64, "i8": torch.int8, "i16": torch.int16,
    "i32": torch.int32, "i64": torch.int64, "u8": torch.uint8,
    "u16": torch.uint16, "u32": torch.uint32, "u64": torch.uint64,
    "bool": torch.bool, "c64": torch.complex64, "c128": torch.complex128,
}
NAMES = {dtype: name for name, dtype in DTYPES.items()}

Size = Any  # int or SymInt


class Description:
    """An operator's tables, and its arguments by position."""

    def __init__(self, text: str) -> None:
        self.tables: dict[str, Any] = json.loads(text)
        t = self.tables
        self.name: str = t["name"]
        self.base_name: str = t["base_name"]
        self.overload: str = t["overload"]
        self.params: list[dict[str, Any]] = t["params"]
        self.results: list[dict[str, Any]] = t["results"]
        self.fresh = [r for r in self.results if r["fresh"] is not None]
        self.numbers = [r for r in self.results if r["value"] is not None]
        self.mutated = [i for i, p in enumerate(self.params) if p["mutated"]]
        self.is_data_dependent: bool = t["has_data_dependent_result"]
        self.defaults = [default_value(p) for p in self.params]
        self.by_name = {p["name"]: i for i, p in enumerate(self.params)}
        # Set where sizes come from a C callback: described values to sizes.
        self.callback: Callable[[tuple[Any, ...]], list[Any]] | None = None

    @property
    def has_callback(self) -> bool:
        return any(s["kind"] == "callback" for s in self.tables["shapes"])

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """The value of every parameter, as a call with these gives it."""
        values = list(args) + self.defaults[len(args):]
        for name, value in kwargs.items():
            values[self.by_name[name]] = value
        return values


def default_value(param: dict[str, Any]) -> Any:
    value = param["default"]
    if isinstance(value, dict):
        if "dtype" in value:
            return DTYPES[value["dtype"]]
        if "float" in value:
            return float(value["float"])
        return torch.device(value["device"], value["id"] or None)
    return value


# --- Expressions ---------------------------------------------------------------


class Poison:
    """A value that could not be computed: it spreads to what needs it, and is
    an error where nothing discards it. src/decl/eval.c does the same."""

    def __init__(self, why: str) -> None:
        self.why = why


def _as_int(value: Any) -> Size:
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, torch.SymBool):
        return torch.sym_ite(value, 1, 0)
    return value


def _as_bool(value: Any) -> Any:
    if isinstance(value, (bool, torch.SymBool)):
        return value
    return value != 0


def _binary(op: str, a: Any, b: Any) -> Any:
    for value in (a, b):
        if isinstance(value, Poison):
            return value
    a, b = _as_int(a), _as_int(b)
    if op in ("floor_div", "ceil_div", "mod") and isinstance(b, int) and b == 0:
        return Poison("a division by zero")
    return _BINARY[op](a, b)


def _unary(op: str, a: Any) -> Any:
    if isinstance(a, Poison):
        return a
    return -_as_int(a) if op == "neg" else torch.sym_not(_as_bool(a))


def _both(a: Any, b: Any, is_and: bool) -> Any:
    if isinstance(a, Poison):
        return a
    a = _as_bool(a)
    if isinstance(a, bool):
        return (b if isinstance(b, Poison) else _as_bool(b)) if a == is_and else a
    if isinstance(b, Poison):
        return b
    return (a & _as_bool(b)) if is_and else (a | _as_bool(b))


def _select(c: Any, a: Any, b: Any) -> Any:
    if isinstance(c, Poison):
        return c
    c = _as_bool(c)
    if isinstance(c, bool):
        return a if c else b
    for value in (a, b):
        if isinstance(value, Poison):
            return value
    return torch.sym_ite(c, _as_int(a), _as_int(b))


_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "floor_div": lambda a, b: a // b,
    "ceil_div": lambda a, b: -((-a) // b),
    "mod": lambda a, b: a % b,
    "min": lambda a, b: torch.sym_min(a, b),
    "max": lambda a, b: torch.sym_max(a, b),
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
    """The sizes of one call: what its names stand for."""

    def __init__(
        self, d: Description, tensors: list[Any], attrs: list[Any]
    ) -> None:
        self.d = d
        self.tensors = tensors
        self.attrs = attrs
        self.dims: dict[int, Any] = {}  # size, tuple (pack), list (varying)

    def _dim(self, index: int) -> Size:
        value = self.dims.get(index, 0)
        if isinstance(value, tuple):
            return _product(value)
        if isinstance(value, list):
            return sum(value)
        return value

    def _push(self, op: str, slot: int, index: Size) -> Any:
        attr = self.attrs[slot] if op.startswith(("attr", "given_a")) else None
        if op == "dim":
            return self._dim(slot)
        if op == "attr":
            return 0 if attr is None else _as_int(attr)
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
            given = _each(self.tensors[slot])
            return given[0].element_size() if given else 0
        if op == "index":
            return index
        raise AssertionError(op)

    def value(self, expr: list[list[Any]], index: Size = 0) -> Any:
        stack: list[Any] = []
        for op, *slot in expr:
            if op == "const":
                stack.append(slot[0])
            elif op in _BINARY:
                b = stack.pop()
                stack.append(_binary(op, stack.pop(), b))
            elif op in ("and", "or"):
                b = stack.pop()
                stack.append(_both(stack.pop(), b, op == "and"))
            elif op in ("not", "neg"):
                stack.append(_unary(op, stack.pop()))
            elif op == "select":
                b, a = stack.pop(), stack.pop()
                stack.append(_select(stack.pop(), a, b))
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
        raise RuntimeError(f"{self.d.name}: {text}")

    def _same(self, found: Size, wanted: Size, text: str) -> None:
        torch._check(
            found == wanted,
            lambda: f"{self.d.name}: {text}: found {found}, wanted {wanted}",
        )

    def _bind(self, dim: int, value: Any, text: str) -> None:
        if dim not in self.dims:
            self.dims[dim] = value
            return
        known = self.dims[dim]
        if not isinstance(value, tuple):
            self._same(value, known, text)
            return
        if len(value) != len(known):
            self._fail(f"{text}: found {len(value)} dims, wanted {len(known)}")
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
            holds = _as_bool(self.value(condition["expr"]))
            torch._check(
                holds,
                lambda text=condition["text"]:
                    f"{self.d.name}: where {text} does not hold",
            )

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
                self._fail(f"dim {axis} is named twice, wanted each once")
            found.append(axis % rank)
        return pack, found

    def _inserted(self, item: dict[str, Any], index: Size) -> tuple[Size, ...]:
        pack = tuple(self.dims.get(item["pack"], ()))
        at, rank = self.attrs[item["attr"]], len(pack)
        if not -rank - 1 <= at <= rank:
            self._fail(f"place {at} among {rank} dims")
        at %= rank + 1
        size = _as_int(self.value(item["expr"], index))
        return (*pack[:at], size, *pack[at:])

    def _pack(self, item: dict[str, Any], index: Size = 0) -> tuple[Size, ...]:
        kind = item["kind"]
        if kind == "attr_pack":
            return tuple(self.attrs[item["attr"]] or ())
        if kind == "broadcast":
            from torch._refs import _broadcast_shapes

            packs = [self.dims.get(p, ()) for p in item["packs"]]
            return tuple(_broadcast_shapes(*packs) or ())
        if kind == "insert":
            return self._inserted(item, index)
        pack, axes = self._axes(item)
        if kind == "permute":
            if len(axes) != len(pack):
                self._fail(f"{len(axes)} dims are named, wanted {len(pack)}")
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
                out.append(_as_int(self.value(item["expr"], index)))
            elif kind == "found":
                out.append(self._found(item))
            else:
                out.extend(self._pack(item, index))
        return out

    def _found(self, item: dict[str, Any]) -> Size:
        """A data-dependent size, one symbol for each name."""
        if item["dim"] not in self.dims:
            bound = self.value(item["expr"])
            most = bound if isinstance(bound, int) else None
            size = torch.library.get_ctx().new_dynamic_size(min=0, max=most)
            torch._check(size <= bound)
            self.dims[item["dim"]] = size
        return self.dims[item["dim"]]


# --- Types -----------------------------------------------------------------------


def _category(dtype: torch.dtype) -> int:
    if dtype.is_complex:
        return 3
    if dtype.is_floating_point:
        return 2
    return 0 if dtype == torch.bool else 1


def promote(values: list[Any]) -> torch.dtype:
    """torch.result_type of any number of tensors and Scalars."""
    groups: list[torch.dtype | None] = [None, None, None]
    for value in values:
        if isinstance(value, torch.Tensor):
            dtype, group = value.dtype, 0 if value.dim() > 0 else 1
        else:
            dtype, group = _scalar_dtype(value), 2
        known = groups[group]
        groups[group] = (
            dtype if known is None else torch.promote_types(known, dtype)
        )
    result: torch.dtype | None = None
    for dtype in groups:
        if dtype is None:
            continue
        if result is None:
            result = dtype
        elif _category(dtype) > _category(result):
            result = torch.promote_types(result, dtype)
    assert result is not None
    return result


def _scalar_dtype(value: Any) -> torch.dtype:
    if isinstance(value, (bool, torch.SymBool)):
        return torch.bool
    if isinstance(value, (int, torch.SymInt)):
        return torch.int64
    if isinstance(value, complex):
        return (torch.complex128 if torch.get_default_dtype() == torch.float64
                else torch.complex64)
    return torch.get_default_dtype()


def _each(value: Any) -> list[torch.Tensor]:
    if value is None:
        return []
    if isinstance(value, (list, tuple)):
        return [t for t in value if t is not None]
    return [value]


def check_types(d: Description, tensors: list[Any]) -> None:
    by_tensor = {p["tensor"]: p for p in d.params}
    for index, rule in enumerate(d.tables["types"]):
        param = by_tensor[index]
        given = _each(tensors[index])
        entries = tensors[index] if param["list"] else []
        if not param["element_optional"] and len(entries or ()) > len(given):
            raise RuntimeError(f"{d.name}: {param['name']} has an entry that "
                               "is None; only a Tensor?[] may")
        wanted = rule["allowed"]
        same = rule["same_as"]
        first = _each(tensors[same])[:1] if same is not None else []
        if first:
            wanted = [NAMES.get(first[0].dtype, "?")]
        for at, tensor in enumerate(given):
            found = NAMES.get(tensor.dtype, str(tensor.dtype))
            if found not in wanted:
                raise RuntimeError(
                    f"{d.name}: {param['name']} is {found}, wanted "
                    f"{' or '.join(wanted)}"
                )
            if at == 0:  # a list has one type
                wanted = [found]


def _out_dtype(
    d: Description, rule: dict[str, Any], scope: Scope, values: list[Any]
) -> torch.dtype:
    kind = rule["kind"]
    if kind == "fixed":
        return DTYPES[rule["dtype"]]
    if kind == "promote":
        given = [values[p] for p in rule["params"] if values[p] is not None]
        return promote(given)
    if kind == "attr" and scope.attrs[rule["attr"]] is not None:
        return scope.attrs[rule["attr"]]
    return _each(scope.tensors[rule["tensor"]])[0].dtype


# --- The function -------------------------------------------------------------------


def _is_dense(tensor: torch.Tensor) -> bool:
    import torch._prims_common as common

    test = getattr(common, "is_non_overlapping_and_dense_or_false", None)
    if test is None:  # torch 2.12 and older
        test = common.is_non_overlapping_and_dense
    return bool(test(tensor))


def _like(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    if _is_dense(tensor):
        return torch.empty_strided(
            tensor.shape, tensor.stride(), dtype=dtype, device=tensor.device
        )
    return torch.empty(tensor.shape, dtype=dtype, device=tensor.device)


# DLPack's type codes, as og_dtype has them.
_CODES = {torch.bfloat16: 4, torch.bool: 6}


def type_code(dtype: torch.dtype) -> int:
    if dtype in _CODES:
        return _CODES[dtype]
    if dtype.is_complex:
        return 5
    if dtype.is_floating_point:
        return 2
    return 0 if dtype.is_signed else 1


def _described(value: Any) -> Any:
    """A value as op_infer takes it. Sizes that are symbols get the values that
    they have here: a callback's shapes are static."""
    if isinstance(value, (list, tuple)):
        return [_described(v) for v in value]
    if isinstance(value, torch.SymInt):
        return int(value)
    if not isinstance(value, torch.Tensor):
        return value
    packed = [struct.pack(f"{value.dim()}q", *(int(n) for n in numbers))
              for numbers in (value.shape, value.stride())]
    return type_code(value.dtype), value.dtype.itemsize * 8, *packed


def _sizes_by_callback(d: Description, values: list[Any]) -> list[Any]:
    assert d.callback is not None
    return d.callback(tuple(_described(v) for v in values))


def _scope(d: Description, values: list[Any]) -> Scope:
    """The sizes of a call with these values, types and shapes checked."""
    tensors: list[Any] = [v for v, p in zip(values, d.params, strict=False)
                          if p["tensor"] is not None]
    attrs = [v for v, p in zip(values, d.params, strict=False)
             if p["attr"] is not None]
    check_types(d, tensors)
    scope = Scope(d, tensors, attrs)
    scope.match()
    return scope


def _device(d: Description, scope: Scope) -> torch.device:
    """Of the first tensor, else a Device argument, else the CPU."""
    for value in scope.tensors:
        for tensor in _each(value):
            return tensor.device
    for p in d.params:
        if p["type"] == "Device" and scope.attrs[p["attr"]] is not None:
            return torch.device(scope.attrs[p["attr"]])
    return torch.device("cpu")


def arrange(d: Description, fresh: list[Any], values: list[Any]) -> Any:
    """What the dispatcher's form returns: the fresh results, and between them
    the int results, which the rules alone decide."""
    scope = _scope(d, values) if d.numbers else None
    out = [
        fresh[r["fresh"]] if scope is None or r["value"] is None
        else _as_int(scope.value(r["value"]))
        for r in d.results if r["alias"] is None
    ]
    return out[0] if len(out) == 1 else tuple(out)


def infer(d: Description, values: list[Any]) -> list[Any]:
    """Empty tensors for the fresh results of a call with these values."""
    scope = _scope(d, values)
    tensors = scope.tensors
    device = _device(d, scope)
    out: list[Any] = []
    found = _sizes_by_callback(d, values) if d.has_callback else []
    for rule, kind in zip(d.tables["shapes"], d.tables["out_types"], strict=False):
        dtype = _out_dtype(d, kind, scope, values)
        if rule["kind"] == "like":
            out.append(_like(tensors[rule["tensor"]], dtype))
        elif rule["kind"] == "list":
            count = int(scope.value(rule["count"]))
            out.append([
                torch.empty(scope.sizes(rule["items"], i), dtype=dtype,
                            device=device)
                for i in range(count)
            ])
        elif rule["kind"] == "items":
            out.append(torch.empty(scope.sizes(rule["items"]), dtype=dtype,
                                   device=device))
        else:
            out.append(torch.empty(found[len(out)], dtype=dtype,
                                   device=device))
    return out

