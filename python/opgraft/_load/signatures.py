# SPDX-License-Identifier: Apache-2.0
"""The forms of an operator, each with its schema: one is declared, the rest
are derived.

    f(Tensor x) -> Tensor          f.out(…, *, Tensor(a!) out), and with
                                   .inplace = "x" also f_(Tensor(a!) x, …)
    f_(Tensor(a!) x) -> Tensor(a!) f_functional(Tensor x) -> Tensor
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

import torch

from .._base.rules import Description

_LETTERS = "abcdefghijklmnopqrstuvwxyz"


@dataclass
class Form:
    """One schema, and how a call of it maps to the declared operator."""

    kind: str  # "base", "inplace", "out", "functional"
    name: str  # with overload
    schema: str
    tags: list[Any]
    # Of the dispatcher's form, each a fresh result or a parameter: the other
    # one is -1.
    results: tuple[tuple[int, int], ...]
    inplace_param: int = -1
    # What the function that the user calls returns, where the dispatcher's
    # form must return nothing: parameter, or None for a dispatcher result.
    aliases: list[int | None] = field(default_factory=list)
    names: list[str] = field(default_factory=list)  # of the .out arguments
    params: str = ""  # the schema's, of the base form


def _default_text(d: Description, i: int) -> str:
    p, value = d.params[i], d.defaults[i]
    if not p["has_default"]:
        return ""
    if isinstance(value, str):
        return "=" + '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, torch.dtype):
        return f"={str(value).removeprefix('torch.')}"
    if isinstance(value, torch.device):
        return f'="{value}"'
    return f"={value}"


def _type_text(p: dict[str, Any], alias: str) -> str:
    text = p["type"] + (f"({alias}!)" if alias else "")
    if p["list"]:
        if p["element_optional"]:
            text += "?"
        size = p["list_size"]
        text += f"[{size or ''}]"
    return text + ("?" if p["optional"] else "")


def _params_text(d: Description, mutated: dict[int, str]) -> str:
    parts, has_star = [], False
    for i, p in enumerate(d.params):
        if p["kwonly"] and not has_star:
            has_star = True
            parts.append("*")
        alias = mutated.get(i, "")
        parts.append(f"{_type_text(p, alias)} {p['name']}{_default_text(d, i)}")
    return ", ".join(parts)


def _result_text(r: dict[str, Any]) -> str:
    text = "SymInt" if r["value"] is not None else r["type"]
    text += "[]" if r["list"] else ""
    return text + (f" {r['name']}" if r["name"] else "")


def _returns_text(results: list[str]) -> str:
    if len(results) == 1 and " " not in results[0]:
        return results[0]
    return f"({', '.join(results)})"


def _overload(d: Description, name: str) -> str:
    return f"{name}.{d.overload}" if d.overload else name


def _common_tags(d: Description) -> list[Any]:
    flags = d.tables["flags"]
    tags = [torch.Tag.pt2_compliant_tag]
    if d.is_data_dependent:
        tags.append(torch.Tag.dynamic_output_shape)
    if "random" in flags:
        tags.append(torch.Tag.nondeterministic_seeded)
    if "capture_never" in flags:
        tags.append(torch.Tag.cudagraph_unsafe)
    strides = d.tables["strides"]
    if strides and all(s == "contiguous" for s in strides):
        tags.append(torch.Tag.needs_contiguous_strides)
    elif strides:
        tags.append(torch.Tag.needs_exact_strides)
    return tags


def base(d: Description) -> Form:
    letters = {p: _LETTERS[k] for k, p in enumerate(d.mutated)}
    results = tuple((r["fresh"], -1) for r in d.fresh)
    aliases = [r["alias"] for r in d.results]
    # A result that is a mutated argument stays out of the dispatcher's schema:
    # Tag.inplace would allow the narrowest form of it, but Inductor (2.13)
    # then takes the result for new memory and reuses the argument's.
    text = _returns_text([_result_text(r) for r in d.results
                          if r["alias"] is None])
    params = _params_text(d, letters)
    schema = f"{d.name}({params}) -> {text}"
    if all(a is None for a in aliases):
        aliases = []
    return Form("base", d.name, schema, _common_tags(d), results,
                aliases=aliases, params=params)


def inplace(d: Description) -> Form | None:
    """`f_`, where the author names the argument that takes the result."""
    param = d.tables["inplace"]
    if param is None or d.mutated or d.numbers:
        return None
    name = _overload(d, d.base_name + "_")
    schema = f"{name}({_params_text(d, {param: 'a'})}) -> ()"
    return Form("inplace", name, schema, _common_tags(d), (),
                inplace_param=param, aliases=[param])


def _has_tensors_first(d: Description) -> bool:
    """Whether the given tensors and then all the rest, by position, is the
    order of the parameters, as Inductor (2.13) calls a tagged .out form."""
    kinds = [0 if p["tensor"] is not None and not p["optional"] else
             1 if p["tensor"] is not None else 2 for p in d.params]
    return (kinds == sorted(kinds) and kinds.count(1) <= 1
            and not any(p["kwonly"] for p in d.params)
            and not any(p["list"] and p["tensor"] is not None
                        for p in d.params))


def out(d: Description, base: Form) -> Form | None:
    """`f.out`: the base form's parameters and one keyword argument for each
    result."""
    if (d.mutated or d.numbers or not d.fresh or d.is_data_dependent
            or d.overload
            or any(r["list"] for r in d.fresh)):
        return None
    if not any(p["tensor"] is not None for p in d.params):
        return None
    names = out_names(d)
    taken = {p["name"] for p in d.params}
    if taken & {"out", *names}:
        return None
    star = "" if any(p["kwonly"] for p in d.params) else "*, "
    outs = ", ".join(f"Tensor({_LETTERS[i]}!) {n}" for i, n in enumerate(names))
    # With Tag.out Inductor may take the form for the functional one. It gets
    # several results, and a result that is unused while the call must stay,
    # wrong there (2.13), so those return nothing.
    is_tagged = (len(names) == 1 and _has_tensors_first(d)
                 and "side_effect" not in d.tables["flags"])
    returns = "Tensor(a!)" if is_tagged else "()"
    schema = f"{d.base_name}.out({base.params}, {star}{outs}) -> {returns}"
    tags = base.tags + ([torch.Tag.out] if is_tagged else [])
    results = ((0, -1),) if is_tagged else ()
    return Form("out", f"{d.base_name}.out", schema, tags, results,
                names=names)


def out_names(d: Description) -> list[str]:
    """The keyword arguments of the .out form: the results' names, or out0…"""
    return [r["name"] or ("out" if len(d.fresh) == 1 else f"out{i}")
            for i, r in enumerate(d.fresh)]


def functional(d: Description) -> Form | None:
    """`f_functional` of a mutating operator: its fresh results, then each
    mutated argument's new value."""
    if not d.mutated or d.numbers:
        return None
    name = _overload(d, d.base_name.rstrip("_") + "_functional"
                     if not d.base_name.endswith("_")
                     else d.base_name + "functional")
    texts = [r["type"] + ("[]" if r["list"] else "") for r in d.fresh]
    texts += ["Tensor[]" if d.params[p]["list"] else "Tensor"
              for p in d.mutated]
    schema = f"{name}({_params_text(d, {})}) -> {_returns_text(texts)}"
    return Form("functional", name, schema, _common_tags(d), ())


def functional_description(d: Description) -> Description:
    """The operator as its functional form has it: nothing is written, and what
    was written is a result behind the fresh ones. A gradient map's arguments
    are the values before the write in both."""
    out = copy.copy(d)
    out.params = [{**p, "mutated": False} for p in d.params]
    kinds = [bool(r["list"]) for r in d.fresh]
    kinds += [bool(d.params[p]["list"]) for p in d.mutated]
    out.results = [{"type": "Tensor", "list": is_list, "name": "", "fresh": i,
                    "alias": None, "value": None}
                   for i, is_list in enumerate(kinds)]
    out.fresh, out.mutated = out.results, []
    grad = d.tables["grad"]
    sources = [
        s if s.get("result") is None
        else {**s, "result": _functional_place(d, s["result"])}
        for s in grad["args"] or []
    ]
    out.tables = {**d.tables, "grad": {**grad, "args": sources}}
    return out


def _functional_place(d: Description, result: int) -> int:
    """Where the functional form has a declared result."""
    alias = d.results[result]["alias"]
    if alias is None:
        return d.fresh.index(d.results[result])
    return len(d.fresh) + d.mutated.index(alias)
