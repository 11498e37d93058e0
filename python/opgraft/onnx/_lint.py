# SPDX-License-Identifier: Apache-2.0
"""What ONNX Runtime says of a model only when it runs, or never: sizes that
contradict an operator's rule, attributes that are ignored, outputs without a
name. Sizes with names are compared as far as names tell."""

from __future__ import annotations

import hashlib
from typing import Any, Iterator

from .._base import sizes
from .._base.counted import counted
from .._base.tables import Description

Module = Any  # opgraft.onnx.Module, whose file imports this one
KINDS = {"int": {"INT"}, "SymInt": {"INT"}, "bool": {"INT"},
         "float": {"INT", "FLOAT"}, "Scalar": {"INT", "FLOAT"}, "str": {"STRING"},
         "ScalarType": {"STRING"}}
# ONNX's numbers of types.
ELEMENTS = {"f32": 1, "u8": 2, "i8": 3, "u16": 4, "i16": 5, "i32": 6, "i64": 7,
            "bool": 9, "f16": 10, "f64": 11, "u32": 12, "u64": 13, "bf16": 16}
LISTS = {"int": {"INTS"}, "SymInt": {"INTS"}, "bool": {"INTS"},
         "float": {"FLOATS"}}
SIZES = range(1 << 63)
SYMBOL_MAX = 200  # characters


class Undecided(Exception):
    """The rule needs a size that only the run has."""


class Maybe:
    """A comparison of sizes that are not known."""

    def __bool__(self) -> bool:
        raise Undecided

    def __and__(self, other: Any) -> Any:
        return other if other is False else self

    def __or__(self, other: Any) -> Any:
        return other if other is True else self

    __rand__, __ror__ = __and__, __or__


MAYBE = Maybe()


class Symbol:
    """A size that has a name, or is computed of such. Each of a chain of nodes
    may double the text: a long one is its hash."""

    def __init__(self, text: str) -> None:
        if len(text) > SYMBOL_MAX:
            text = f"size {hashlib.sha256(text.encode()).hexdigest()[:16]}"
        self.text = text

    def __repr__(self) -> str:
        return self.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __eq__(self, other: Any) -> Any:
        same = isinstance(other, Symbol) and other.text == self.text
        return True if same else MAYBE

    def __ne__(self, other: Any) -> Any:
        return False if (self == other) is True else MAYBE

    def _with(self, op: str, other: Any) -> Symbol:
        return Symbol(f"({self} {op} {other})")

    def _behind(self, op: str, other: Any) -> Symbol:
        return Symbol(f"({other} {op} {self})")

    def __lt__(self, other: Any) -> Any:
        return MAYBE

    __le__ = __gt__ = __ge__ = __lt__

    def __neg__(self) -> Symbol:
        return Symbol(f"-{self}")

    def __add__(self, other: Any) -> Any:
        return self if isinstance(other, int) and other == 0 else self._with(
            "+", other)

    def __mul__(self, other: Any) -> Any:
        return self if isinstance(other, int) and other == 1 else self._with(
            "*", other)

    __radd__, __rmul__ = __add__, __mul__

    def __sub__(self, other: Any) -> Symbol:
        return self._with("-", other)

    def __rsub__(self, other: Any) -> Symbol:
        return self._behind("-", other)

    def __floordiv__(self, other: Any) -> Symbol:
        return self._with("//", other)

    def __rfloordiv__(self, other: Any) -> Symbol:
        return self._behind("//", other)

    def __mod__(self, other: Any) -> Symbol:
        return self._with("%", other)

    def __rmod__(self, other: Any) -> Symbol:
        return self._behind("%", other)


class Scope(sizes.Scope):
    """Names of sizes; what they leave open is taken to hold."""

    def as_int(self, value: Any) -> Any:
        if value is MAYBE:
            raise Undecided
        return super().as_int(value)

    def as_bool(self, value: Any) -> Any:
        return value if value is MAYBE else super().as_bool(value)

    def negated(self, truth: Any) -> Any:
        return truth if truth is MAYBE else not truth

    def choose(self, truth: Any, a: Any, b: Any) -> Any:
        raise Undecided

    def least(self, a: Any, b: Any) -> Any:
        return a if (a == b) is True else min(a, b)

    def most(self, a: Any, b: Any) -> Any:
        return a if (a == b) is True else max(a, b)

    def check(self, holds: Any, text: Any) -> None:
        if holds is False:
            self._fail(text())

    def broadcast(self, packs: list[Any]) -> tuple[Any, ...]:
        rank = max(map(len, packs), default=0)
        out = [1] * rank
        for pack in packs:
            for i, size in enumerate(pack, rank - len(pack)):
                if (size == 1) is not True:
                    self.check(out[i] == 1 or out[i] == size,
                               lambda: "sizes do not broadcast")
                    out[i] = size
        return tuple(out)

    def new_size(self, bound: Any) -> Any:
        return Symbol(f"at most {bound}")

    def item_bytes(self, value: Any) -> int:
        raise Undecided


class Shape:
    def __init__(self, shape: tuple[Any, ...], element: int) -> None:
        self.shape = shape
        self.element = element  # ONNX's number of the type


def lint(module: Module, model: Any) -> list[str]:
    """A sentence for each finding; none where nothing is wrong. ValueError
    where the model cannot be read."""
    model = _proto(model)
    findings = [text for node in _nodes(model.graph, module.domain)
                for text in _node_findings(module, node)]
    done: set[int] = set()
    while True:
        known = _inferred(model, findings)
        new = len(done)
        for i, node in enumerate(model.graph.node):
            if node.domain == module.domain and i not in done and _is_ready(
                    module, node, known):
                done.add(i)
                findings += _infer(module, node, known, model.graph)
        if len(done) == new:
            return findings


def _inferred(model: Any, findings: list[str]) -> dict[str, Shape]:
    """The sizes that onnx knows; it refuses a model that is wrong elsewhere."""
    import onnx

    try:
        model = onnx.shape_inference.infer_shapes(model, data_prop=True)
    except Exception as error:  # of several types, which its C++ code chooses
        text = f"model: onnx cannot infer its sizes: {error}".splitlines()[0]
        if text not in findings:
            findings.append(text)
    return _shapes(model.graph)


def _proto(model: Any) -> Any:
    import onnx

    own = onnx.ModelProto()
    if hasattr(model, "SerializeToString"):
        own.CopyFrom(model)
        return own
    name = "model" if isinstance(model, bytes) else str(model)
    try:
        if isinstance(model, bytes):
            own.ParseFromString(model)
        else:
            own = onnx.load(model, load_external_data=False)
    except OSError:
        raise
    except Exception as error:  # of several types: it has several formats
        raise ValueError(f"{name}: is not an ONNX model: {error}; expected the "
                         "bytes of an onnx.ModelProto") from None
    return own


def _nodes(graph: Any, domain: str) -> Iterator[Any]:
    for node in graph.node:
        if node.domain == domain:
            yield node
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                yield from _nodes(inner, domain)


def _named(node: Any) -> str:
    return f"node {node.name!r}: {node.op_type}" if node.name else node.op_type


# --- A node by itself ---------------------------------------------------------


def _node_findings(module: Module, node: Any) -> Iterator[str]:
    d = module.descriptions.get(node.op_type)
    if d is None:
        why = module.missing.get(node.op_type)
        yield (f"{_named(node)}: is not offered in ONNX Runtime: {why}" if why
               else f"{_named(node)}: module {module.domain} has no such "
               "operator")
        return
    yield from _call_findings(d, node)
    known = {p["name"] for p in d.params if p["attr"] is not None}
    yield from (f"{_named(node)}: has no attribute {a.name!r}, which ONNX "
                "Runtime ignores" for a in node.attribute
                if a.name not in known)
    wanted = len(d.fresh) + len(d.mutated)
    if len(node.output) != wanted or not all(node.output):
        yield (f"{_named(node)}: {sum(map(bool, node.output))} outputs have a "
               f"name, expected {wanted}: the fresh results, then the new "
               "value of each argument that is written")


def _input_findings(d: Description, node: Any) -> Iterator[str]:
    params = [p for p in d.params if p["attr"] is None]
    is_open = bool(params) and params[-1]["list"]
    if len(node.input) > len(params) and not is_open:
        yield (f"{_named(node)}: has {counted(len(node.input), 'input')}, "
               f"expected at most {len(params)}")
    for i, param in enumerate(params):
        if param["list"]:
            if not all(node.input[i:]):
                yield (f"{_named(node)}: {param['name']} has an entry without "
                       "a name")
        elif not param["optional"] and not any(node.input[i:i + 1]):
            yield f"{_named(node)}: input {param['name']!r} is missing"


def _call_findings(d: Description, node: Any) -> Iterator[str]:
    """What keeps the rules from being asked about the node."""
    yield from _input_findings(d, node)
    for param in d.params:
        if param["attr"] is None:
            continue
        given = _given(node, param)
        if len(given) > 1:
            yield (f"{_named(node)}: has {len(given)} attributes "
                   f"{param['name']!r}, expected one")
        elif given:
            yield from _attribute_findings(param, node, given[0])
        elif not param["has_default"]:
            yield f"{_named(node)}: attribute {param['name']!r} is missing"


def _given(node: Any, param: dict[str, Any]) -> list[Any]:
    """The node's attributes of the parameter's name: one where it is right."""
    return [a for a in node.attribute if a.name == param["name"]]


def _attribute_findings(param: dict[str, Any], node: Any, attribute: Any
                        ) -> Iterator[str]:
    from onnx import AttributeProto

    where = f"{_named(node)}: attribute {attribute.name!r}"
    if attribute.ref_attr_name:
        yield (f"{where} refers to {attribute.ref_attr_name!r} of a function, "
               "expected a value")
        return
    kind = AttributeProto.AttributeType.Name(attribute.type)
    kinds = (LISTS if param["list"] else KINDS).get(param["type"], set())
    if kind not in kinds:
        yield (f"{where} is {kind}, expected {' or '.join(sorted(kinds))}; "
               "ONNX Runtime refuses to load the model")


# --- Sizes --------------------------------------------------------------------


def _shapes(graph: Any) -> dict[str, Shape]:
    found: dict[str, Shape] = {}
    for info in (*graph.input, *graph.output, *graph.value_info):
        tensor = info.type.tensor_type
        if not tensor.HasField("shape"):
            continue
        found[info.name] = Shape(tuple(
            dim.dim_value if dim.HasField("dim_value") and dim.dim_value >= 0
            else Symbol(str(dim.dim_param or f"{info.name}[{i}]"))
            for i, dim in enumerate(tensor.shape.dim)), tensor.elem_type)
    for tensor in graph.initializer:
        found[tensor.name] = Shape(tuple(tensor.dims), tensor.data_type)
    return found


def _is_ready(module: Module, node: Any, known: dict[str, Shape]) -> bool:
    d = module.descriptions.get(node.op_type)
    return d is not None and all(
        name in known for name in node.input if name) and not any(
        _call_findings(d, node))


def _tensors(d: Description, node: Any, known: dict[str, Shape]) -> list[Any]:
    given = [known[name] if name else None for name in node.input]
    out: list[Any] = []
    for param in d.params:
        if param["attr"] is not None:
            continue
        if param["list"]:  # the last
            out.append(given[len(out):])
        else:
            out.append(given[len(out)] if len(out) < len(given) else None)
    return out


def _attrs(d: Description, node: Any) -> list[Any]:
    from onnx import helper

    return [helper.get_attribute_value(given[0])
            if (given := _given(node, p)) else default
            for p, default in zip(d.params, d.defaults)
            if p["attr"] is not None]


def _infer(module: Module, node: Any, known: dict[str, Shape], graph: Any
           ) -> list[str]:
    """Findings; what follows for the outputs goes into `known` and the graph."""
    d = module.descriptions[node.op_type]
    if d.has_callback:
        return []
    tensors = _tensors(d, node, known)
    scope = Scope(d, tensors, _attrs(d, node))
    try:
        scope.match()
        shapes = [tensors[rule["tensor"]].shape if rule["kind"] == "like"
                  else tuple(scope.sizes(rule["items"]))
                  for rule in d.tables["shapes"]]
    except Undecided:
        return []
    except ValueError as error:
        return [f"{_named(node)}: {str(error).partition(': ')[2]}"]
    results = [Shape(shape, _element(kind, tensors)) for shape, kind in
               zip(shapes, d.tables["out_types"])]
    for size in (s for shape in shapes for s in shape):
        if isinstance(size, int) and size not in SIZES:
            return [f"{_named(node)}: a result has the size {size}, expected 0 "
                    f"to {SIZES[-1]}"]
    results += [tensors[d.params[p]["tensor"]] for p in d.mutated]
    return [text for name, result in zip(node.output, results)
            for text in _output(node, name, result, known, graph)]


def _element(kind: dict[str, Any], tensors: list[Any]) -> int:
    """0 where the inputs do not tell."""
    if kind["kind"] == "fixed":
        return ELEMENTS.get(kind["dtype"], 0)
    source = tensors[kind["tensor"]] if kind["kind"] == "same" else None
    if isinstance(source, list):
        source = source[0] if source else None
    return source.element if source is not None else 0


def _output(node: Any, name: str, result: Shape, known: dict[str, Shape],
            graph: Any) -> Iterator[str]:
    from onnx import helper

    declared = known.get(name)
    if declared is not None:
        if len(declared.shape) != len(result.shape) or any(
                (a == b) is False
                for a, b in zip(declared.shape, result.shape)):
            yield (f"{_named(node)}: output {name!r} is declared as "
                   f"{list(declared.shape)}, expected {list(result.shape)}")
        return
    known[name] = result
    if (result.element == 0 or not isinstance(name, str)  # not UTF-8
            or any(o.name == name for o in graph.output)):
        return
    graph.value_info.append(helper.make_tensor_value_info(
        name, result.element,
        [str(s) if isinstance(s, Symbol) else s for s in result.shape]))
