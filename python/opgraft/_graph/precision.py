# SPDX-License-Identifier: Apache-2.0
"""Option `precision`: a name for all weights, or {pattern: name}."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import Any, Mapping

import torch

# As OPGRAFT_OPTION_* of opgraft/graph.h.
_WEIGHTS = {"int8": 32, "int4": 64, "int4/64": 128, "int4/32": 256}
_ACTIVATIONS = 512
PRECISIONS = {"f32": 0, "bf16": 16, **_WEIGHTS, **{
    f"{name}-dynamic": flag | _ACTIVATIONS for name, flag in _WEIGHTS.items()}}
# Smaller ones are not kept packed (src/exec/fast/packs.c).
LEAST_BYTES = 1 << 14


def flags(where: str, precision: Any) -> int:
    """Of the whole graph."""
    if isinstance(precision, str) and precision in PRECISIONS:
        return PRECISIONS[precision]
    raise ValueError(f"{where}: precision is {precision!r}, expected one of "
                     f"{', '.join(PRECISIONS)}")


def check(where: str, precision: Any) -> bool:
    """Whether it asks for anything."""
    if not isinstance(precision, Mapping):
        return flags(where, precision) != 0
    for pattern, one in precision.items():
        if not isinstance(pattern, str):
            raise ValueError(f"{where}: precision has pattern {pattern!r}, "
                             "expected a str, as \"layers.*.weight\"")
        flags(f"{where}: pattern {pattern!r}", one)
    return bool(precision)


def by_weight(where: str, precision: Any, weights: Mapping[str, Any],
              others: Mapping[str, Any] | None = None) -> dict[str, int]:
    """The flags of `weights` (name: tensor), by the first pattern that matches
    each. `others`: weights of the model that the graph does not have."""
    if not isinstance(precision, Mapping):
        return {}
    for pattern in precision:
        known = {**(others or {}), **weights}
        found = [n for n in known if fnmatchcase(n, pattern)]
        if not any(map(_is_taken, (known[n] for n in found))):
            what = (f"{found[0]!r}, of shape {list(known[found[0]].shape)}"
                    if found else "none of " + (", ".join(
                        repr(n) for n in list(known)[:8]) or "no weights"))
            raise ValueError(
                f"{where}: precision has pattern {pattern!r}, which matches "
                f"{what}; expected a matrix of floats, {LEAST_BYTES} bytes or "
                "more")
    return {name: next((PRECISIONS[one] for pattern, one in precision.items()
                        if fnmatchcase(name, pattern)), 0)
            for name in weights}


def _is_taken(tensor: Any) -> bool:
    return (isinstance(tensor, torch.Tensor) and tensor.ndim >= 2
            and tensor.is_floating_point()
            and tensor.numel() * tensor.element_size() >= LEAST_BYTES)


def of_dynamo(gm: torch.fx.GraphModule, precision: Any) -> dict[int, int]:
    """The flags of its placeholders, by position."""
    if not isinstance(precision, Mapping):
        return {}
    nodes = gm.graph.find_nodes(op="placeholder")
    names = {_name_of(n) or str(i): i for i, n in enumerate(nodes)}
    found = by_weight(
        "backend opgraft", precision,
        {name: nodes[i].meta.get("example_value") for name, i in names.items()
         if not name.isdigit()}, _others())
    return {names[name]: flag for name, flag in found.items()}


def _name_of(node: torch.fx.Node) -> str | None:
    """As named_parameters has it; None where it is not part of a module."""
    source = getattr(node.meta.get("grapharg"), "source", None)
    name = getattr(source, "name", "")
    parts = re.findall(r"\._(?:modules|parameters|buffers)\['([^']*)'\]",
                       name() if callable(name) else name)
    return ".".join(parts) or None


def _others() -> dict[str, Any]:
    """Of the module whose code is compiled: breaks divide it."""
    from torch._dynamo.symbolic_convert import InstructionTranslator

    try:
        local = InstructionTranslator.current_tx().f_locals.values()
    except AttributeError:  # another caller than Dynamo
        return {}
    return {name: tensor for module in local
            if isinstance(module, torch.nn.Module)
            for name, tensor in module.named_parameters()}
