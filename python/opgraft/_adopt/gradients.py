# SPDX-License-Identifier: Apache-2.0
"""The gradient of an adopted operator: a callable becomes the operator that the
gradient map names, with rules that follow from the forward's."""

from __future__ import annotations

import functools
import inspect
import re
from typing import Any, Callable

from .._base.rules import Description
from .adopted import Fields

Second = tuple[Callable[..., Any], Fields]


def plan(d: Description, backward: Any) -> tuple[str, Second | None]:
    """(the gradient map, the second operator if there is one)"""
    if isinstance(backward, str):
        return backward, None
    fn, text = backward if isinstance(backward, tuple) else (backward, None)
    if not callable(fn):
        raise TypeError(
            f"{d.name}: backward is {backward!r}, expected a callable, "
            '(callable, "(grad, x) -> x"), or "none"'
        )
    takes, targets = _map(d, fn, text)
    own = len(takes)
    takes += _needed(d, takes, targets)
    if len(takes) > own:
        fn = functools.partial(_call_first, fn, own)
    name = f"{d.base_name}{d.overload and '_' + d.overload}_backward"
    fields = _declare(d, name, takes, targets)
    return f"{name}({', '.join(takes)}) -> {', '.join(targets)}", (fn, fields)


def _call_first(fn: Callable[..., Any], count: int, *args: Any) -> Any:
    return fn(*args[:count])


def _needed(d: Description, takes: list[str], targets: list[str]) -> list[str]:
    """Arguments that the callable does not take, and whose sizes say what shape
    their gradients have."""
    results = {**{g: i for i, g in enumerate(grad_names(d))},
               **_result_names(d)}
    lists = {name for name in targets if name in d.by_name
             and d.params[d.by_name[name]]["list"]}
    known = {w for name in takes if name in results and name not in d.by_name
             for w in _bound(_result_pattern(d, d.results[results[name]]))}
    known |= {w for name in takes for w in _bound(_argument_pattern(d, name))}
    return [name for name in targets if name not in takes and (
        name in lists  # its length
        or not _dims(_argument_pattern(d, name)) <= known | {*takes})]


def _dims(pattern: str) -> set[str]:
    return set(re.findall(r"[A-Za-z_]\w*", pattern))


def _bound(pattern: str) -> set[str]:
    """The names that a tensor of this pattern tells: `D` and `*N`, while
    `D // 2` tells no D."""
    while pattern != (pattern := re.sub(r"\([^()]*\)", "", pattern)):
        pass  # what stands in a call binds nothing
    return set(re.findall(r"(?:^|[\[,])\s*\*?([A-Za-z_]\w*)(?=\s*[\],@~])",
                          pattern))


def _argument_pattern(d: Description, name: str) -> str:
    if name not in d.by_name:
        return ""
    tensor = d.params[d.by_name[name]]["tensor"]
    return next((_bracket(t["text"]) for t in d.tables["patterns"]
                 if t["tensor"] == tensor is not None), "")


def grad_names(d: Description) -> list[str]:
    if len(d.results) == 1:
        return ["grad"]
    return [f"grad_{r['name'] or i}" for i, r in enumerate(d.results)]


def _result_names(d: Description) -> dict[str, int]:
    one = len(d.results) == 1
    return {r["name"] or ("result" if one else f"result_{i}"): i
            for i, r in enumerate(d.results)}


def _map(
    d: Description, fn: Callable[..., Any], text: str | None
) -> tuple[list[str], list[str]]:
    """What the callable takes and to whom its results go."""
    params = [p["name"] for p in d.params]
    if text is not None:
        match = re.fullmatch(r"\s*\w*\s*\((.*)\)\s*->\s*(.*)", text, re.S)
        if match is None:
            raise ValueError(
                f"{d.name}: backward's map is {text!r}, expected "
                '"(grad, x) -> x"'
            )
        return _words(match[1]), _words(match[2])
    known = {*grad_names(d), *params, *_result_names(d)}
    grads = grad_names(d)
    takes = grads + params
    named = _parameters(fn)
    if named and set(named) <= known:
        takes = named
    elif named is not None and _needs(fn) <= len(grads) <= len(named):
        takes = grads
    elif named is not None and not _needs(fn) <= len(takes) <= len(named):
        raise ValueError(
            f"{d.name}: backward takes ({', '.join(named)}), expected "
            f"({', '.join(grads)}), ({', '.join(takes)}), or some of these by "
            'their names; or say which: backward=(fn, "(grad, x) -> x")')
    return takes, [p["name"] for p in d.params if _has_gradient(d, p)]


def _parameters(fn: Callable[..., Any]) -> list[str] | None:
    """The names of what the callable takes; None where it does not tell, or
    takes any number."""
    try:
        found = inspect.signature(fn).parameters.values()
    except (ValueError, TypeError):
        return None
    if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in found):
        return None
    return [p.name for p in found]


def _needs(fn: Callable[..., Any]) -> int:
    """How many values it must be given."""
    return sum(p.default is p.empty
               for p in inspect.signature(fn).parameters.values())


def _words(text: str) -> list[str]:
    return [w.strip() for w in text.split(",") if w.strip()]


def _has_gradient(d: Description, p: dict[str, Any]) -> bool:
    if p["tensor"] is None or p["element_optional"]:
        return False
    allowed = d.tables["types"][p["tensor"]]["allowed"]
    return any(t[0] in "fbc" and t != "bool" for t in allowed)


def _declare(
    d: Description, name: str, takes: list[str], targets: list[str]
) -> Fields:
    grads = {g: i for i, g in enumerate(grad_names(d))}
    saved = _result_names(d)
    arguments, patterns, types = [], [], []
    given = {w for w in takes if w in d.by_name}
    for word in takes:
        if word in grads or word in saved:
            r = d.results[grads.get(word, saved.get(word, 0))]
            arguments.append(f"Tensor{'[]' if r['list'] else ''} {word}")
            pattern = _result_pattern(d, r)
            patterns += [f"{word}{pattern}"] if pattern else []
            types.append(f"{word}: {_result_type(d, r, given)}")
        elif word in d.by_name:
            p = d.params[d.by_name[word]]
            arguments.append(_argument(p))
            patterns += [t["text"] for t in d.tables["patterns"]
                         if t["tensor"] == p["tensor"] is not None]
            if p["tensor"] is not None:
                types.append(f"{word}: {_type(d, p['tensor'], given)}")
        else:
            raise ValueError(
                f"{d.name}: backward takes {word!r}, expected gradients "
                f"({', '.join(grads)}), arguments or results "
                f"({', '.join(saved)})"
            )
    outs = [_target(d, t, given) for t in targets]
    shapes, out_types = ", ".join(o[0] for o in outs), [o[1] for o in outs]
    returns = ", ".join(
        "Tensor[]" if d.params[d.by_name[t]]["list"] else "Tensor"
        for t in targets)
    # Results may only copy the type of an argument that stands before them,
    # and an argument only that of an earlier one.
    return {
        "schema": f"{name}({', '.join(arguments)}) -> "
                  + (returns if len(targets) == 1 else f"({returns})"),
        "shape": f"{', '.join(patterns)} -> {shapes}",
        "dtype": f"{', '.join(_ordered(types))} -> {', '.join(out_types)}",
        "backward": None,
        "doc": f"The gradient of {d.name}.",
    }


def _ordered(types: list[str]) -> list[str]:
    """Entries that name another argument after those that name types."""
    words = {t.partition(":")[0] for t in types}
    return sorted(types, key=lambda t: t.partition(": ")[2] in words)


def _argument(p: dict[str, Any]) -> str:
    text = p["type"]
    if p["list"]:
        text += ("?" if p["element_optional"] else "") + "[]"
    return f"{text}{'?' if p['optional'] else ''} {p['name']}"


def _bracket(text: str) -> str:
    return text[text.index("["):]


def _result_pattern(d: Description, r: dict[str, Any]) -> str:
    """The bracket of a result as an argument's pattern."""
    if r["alias"] is not None:
        tensor = d.params[r["alias"]]["tensor"]
        return next((_bracket(t["text"]) for t in d.tables["patterns"]
                     if t["tensor"] == tensor), "")
    rule = d.tables["shapes"][r["fresh"]]
    if rule["kind"] == "like":
        return next((_bracket(t["text"]) for t in d.tables["patterns"]
                     if t["tensor"] == rule["tensor"]), "")
    return rule["text"] if rule["kind"] == "items" else ""


def _type(d: Description, tensor: int, given: set[str]) -> str:
    entry = d.tables["types"][tensor]
    names = [p["name"] for p in d.params if p["tensor"] is not None]
    if entry["variable"] is not None:
        # The first argument of this free type that is passed names it.
        peers = [t for t, e in enumerate(d.tables["types"])
                 if e["variable"] == entry["variable"] and names[t] in given]
        if peers and peers[0] != tensor:
            return names[peers[0]]
    return "|".join(entry["allowed"])


def _result_type(d: Description, r: dict[str, Any], given: set[str]) -> str:
    if r["alias"] is not None:
        return _type_or_name(d, d.params[r["alias"]]["tensor"], given)
    rule = d.tables["out_types"][r["fresh"]]
    if rule["kind"] == "fixed":
        return rule["dtype"]
    if rule["kind"] == "same":
        return _type_or_name(d, rule["tensor"], given)
    return "floating"


def _type_or_name(d: Description, tensor: int, given: set[str]) -> str:
    names = [p["name"] for p in d.params if p["tensor"] is not None]
    if names[tensor] in given:
        return names[tensor]
    return _type(d, tensor, given)


def _target(d: Description, name: str, given: set[str]) -> tuple[str, str]:
    """(shape, type) of an argument's gradient"""
    if name not in d.by_name or d.params[d.by_name[name]]["tensor"] is None:
        raise ValueError(
            f"{d.name}: backward gives a gradient for {name!r}, expected "
            f"tensor arguments: {', '.join(p['name'] for p in d.params if p['tensor'] is not None)}"
        )
    tensor = d.params[d.by_name[name]]["tensor"]
    pattern = next((_bracket(t["text"]) for t in d.tables["patterns"]
                    if t["tensor"] == tensor), None)
    if pattern is None:
        raise ValueError(
            f"{d.name}: the shape rule has no pattern for {name}, so its "
            f"gradient's shape is not known; add {name}[*M]"
        )
    kind = _type_or_name(d, tensor, given)
    if d.params[d.by_name[name]]["list"]:
        # A varying dim has a size of its own in each entry.
        items = re.sub(r"~(@\w+)?", "~[i]", pattern.removeprefix("[]"))
        pattern = f"{{i < len({name}): {items}}}"
    if "|" in kind:
        kind = next((g for g, r in zip(grad_names(d), d.results)
                     if _result_type(d, r, given) == kind), kind)
    return pattern, kind
