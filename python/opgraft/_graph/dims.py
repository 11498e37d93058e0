# SPDX-License-Identifier: Apache-2.0
"""Names that a model's author gave, for the graph: Dim("batch") is `batch`
there, not the symbol that torch.export made of it, and {"logits": y} is
`logits`.
"""

from __future__ import annotations

import inspect
import re
from typing import Any, Callable, Iterator

import sympy  # type: ignore[import-untyped]
import torch
import torch.utils._pytree as pytree
from torch.export import ExportedProgram

_NAME = re.compile(r"[A-Za-z_]\w{0,62}", re.ASCII)
# As torch names its own, and words of the text form (src/graph/size_parse.c).
_TAKEN = re.compile(r"[su]\d+|true|false|none|inf|nan|dtype|device|other")


def names(function: Callable[..., Any], program: ExportedProgram,
          dynamic_shapes: Any) -> dict[sympy.Symbol, sympy.Symbol]:
    """By symbol of the exported function, the one to write instead."""
    if not dynamic_shapes:
        return {}
    spec = program.call_spec.in_spec
    inputs = program.graph.find_nodes(op="placeholder")
    args, kwargs = pytree.tree_unflatten(
        [n.meta.get("val") for n in inputs[len(inputs) - spec.num_leaves:]],
        spec)
    bound = inspect.signature(function).bind(*args, **kwargs)
    if not isinstance(dynamic_shapes, (dict, tuple, list)):
        dynamic_shapes = dynamic_shapes.dynamic_shapes(function, args, kwargs)
    values: Any = dict(bound.arguments)
    if not isinstance(dynamic_shapes, dict):
        values = list(values.values())
    found = {symbol: name for symbol, name in _pairs(dynamic_shapes, values)
             if _NAME.fullmatch(name) and not _TAKEN.fullmatch(name)}
    return {symbol: sympy.Symbol(name, integer=True)
            for symbol, name in found.items()
            if list(found.values()).count(name) == 1}


def results(program: ExportedProgram, taken: set[str]) -> list[str]:
    """Of each result by its keys, as `past_0` of {"past": [k, v]}; "" where
    there is no key."""
    spec = program.call_spec.out_spec
    paths = [path for path, _ in pytree.tree_flatten_with_path(
        pytree.tree_unflatten(list(range(spec.num_leaves)), spec))[0]]
    found = []
    for path in paths:
        parts = [str(getattr(key, field)) for key in path
                 for field in ("key", "name", "idx") if hasattr(key, field)]
        name = re.sub(r"\W", "_", "_".join(parts), flags=re.ASCII)
        name = f"{name}_result" if name in taken else name
        fits = _NAME.fullmatch(name) and not _TAKEN.fullmatch(name)
        found.append(name if fits and name not in found else "")
    return found


def _pairs(said: Any, value: Any) -> Iterator[tuple[sympy.Symbol, str]]:
    """(symbol, name of its Dim) for each size that is one symbol."""
    sizes: Any = value.shape if isinstance(value, torch.Tensor) else value
    if isinstance(said, dict) and isinstance(sizes, (dict, list, tuple,
                                                     torch.Size)):
        for key, inner in said.items():
            if not isinstance(sizes, dict) or key in sizes:
                yield from _pairs(inner, sizes[key])
    elif isinstance(said, (list, tuple)) and isinstance(
            sizes, (list, tuple, torch.Size)):
        for inner, one in zip(said, sizes):
            yield from _pairs(inner, one)
    elif isinstance(value, torch.SymInt) and value.node.expr.is_Symbol:
        name = getattr(said, "__name__", None)
        if isinstance(name, str):
            yield value.node.expr, name
