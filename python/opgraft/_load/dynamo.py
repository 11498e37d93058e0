# SPDX-License-Identifier: Apache-2.0
"""Tells Dynamo that a builtin stands for its torch.ops form: no graph break."""

from __future__ import annotations

from typing import Any, Callable

from .._base.hooks import when_imported
from .._base.rules import Description
from . import generate, signatures


def stand_in(
    d: Description,
    op: Callable[..., Any],
    op_out: Callable[..., Any] | None,
    aliases: list[int | None],
) -> Callable[..., Any]:
    """A Python function with the builtin's signature over `op`.

    `aliases`: for each result that the user's function returns, the parameter
    that it is, or None for what `op` returns, in order.
    """
    lines = [f"def {d.base_name}({_signature(d, op_out is not None)}):"]
    if op_out is not None:
        count = len(d.fresh)
        names = signatures.out_names(d)
        outs = [f"{names[0]}=out"] if count == 1 else [
            f"{name}=out[{i}]" for i, name in enumerate(names)
        ]
        lines += [
            "    if out is not None:",
            f"        _op_out({_join(generate.arguments(d), outs)})",
            "        return out",
        ]
    call = f"_op({generate.arguments(d)})"
    if all(a is None for a in aliases):
        lines.append(f"    return {call}")
    else:
        lines.append(f"    _r = {call}")
        fresh = sum(a is None for a in aliases)
        parts, taken = [], 0
        for a in aliases:
            if a is not None:
                parts.append(generate.variable(d, a))
            else:
                parts.append("_r" if fresh == 1 else f"_r[{taken}]")
                taken += 1
        lines.append(f"    return {', '.join(parts)}")
    return generate.compile_function(
        d, d.base_name, "\n".join(lines), {"_op": op, "_op_out": op_out}
    )


def _signature(d: Description, has_out: bool) -> str:
    text = generate.parameters(d)
    if not has_out:
        return text
    has_star = any(p["kwonly"] for p in d.params)
    return _join(text, ["out=None"] if has_star else ["*", "out=None"])


def _join(text: str, parts: list[str]) -> str:
    return ", ".join([text, *parts] if text else parts)


def register(
    builtin: Callable[..., Any],
    make: Callable[[], Callable[..., Any]],
    undo: list[Callable[[], None]],
) -> None:
    """Tells Dynamo now, or when it is imported, of the function that `make`
    returns; `undo` gets what takes it back."""

    def tell() -> None:
        import torch._dynamo

        wrapped = torch._dynamo.substitute_in_graph(
            builtin, skip_signature_check=True
        )(make())
        undo.append(lambda: _forget(builtin, wrapped))

    when_imported("torch._dynamo", tell, undo)


def _forget(*functions: Callable[..., Any]) -> None:
    """Takes functions out of Dynamo's tables, which know them by id too."""
    from torch._dynamo.trace_rules import (
        _polyfilled_function_ids,
        get_torch_obj_rule_map,
    )
    from torch._dynamo.variables import PolyfilledFunctionVariable
    from torch._dynamo.variables.builder import VariableBuilder

    for function in functions:
        VariableBuilder._id_dispatch().pop(id(function), None)
        _polyfilled_function_ids.remove(id(function))
        get_torch_obj_rule_map().pop(function, None)
        PolyfilledFunctionVariable._get_polyfill_handlers().pop(function, None)
