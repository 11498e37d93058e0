# SPDX-License-Identifier: Apache-2.0
"""What is said to whoever looks: the help of an operator, and how a file that is
missing or older than its source is built."""

from __future__ import annotations

import keyword
import os
import warnings
from typing import Any

from .._base.rules import Description

_GRADIENTS = {
    "none": "none: the results do not depend on it",
    "missing": "none declared: asking for one is an error",
}


def _shape(tables: dict[str, Any]) -> str:
    given = ", ".join(p["text"] for p in tables["patterns"])
    made = ", ".join(s.get("text") or "sizes from C" for s in tables["shapes"])
    return f"{given} -> {made}" if made else given


def _gradient(tables: dict[str, Any]) -> str:
    grad = tables["grad"]
    return grad["op"] or _GRADIENTS.get(grad["kind"], grad["kind"])


def _kernels(tables: dict[str, Any]) -> str:
    if tables["row"]:
        return f"loops of {tables['row']}"
    said = []
    for kernel in tables["kernels"]:
        words = [kernel["device"] or "a driver's device", kernel["dtypes"],
                 kernel["isa"]]
        said.append(" ".join(word for word in words if word))
    return "; ".join(said)


def _rules(tables: dict[str, Any]) -> list[str]:
    rows = {"shape": _shape(tables),
            "where": tables["where"],
            "gradient": _gradient(tables), "kernels": _kernels(tables)}
    return [f"{key:<9} {said}" for key, said in rows.items() if said]


def help_text(d: Description, name: str) -> str:
    """The signature that inspect reads, the schema, what the author says of it,
    and the rules of shapes, gradient and kernels."""
    from .generate import parameters

    names = parameters(d)
    for i, value in enumerate(d.defaults):
        names = names.replace(f"=_default_{i}", f"={value!r}")
    # inspect reads the first line; what it cannot read it must not see.
    is_plain = all(
        isinstance(v, (int, float, str, list, type(None))) for v in d.defaults
    ) and not any(keyword.iskeyword(p["name"]) for p in d.params)
    signature = f"$self, {names}" if names else "$self"
    parts = [f"{name}({signature if is_plain else '$self, /, *args, **kwargs'})",
             "--", "", d.tables["schema"], ""]
    if d.tables["doc"]:
        parts += [d.tables["doc"], ""]
    return "\n".join(parts + _rules(d.tables))


def how_to_build(where: str) -> str:
    """The command that makes this file."""
    stem, suffix = os.path.splitext(where)
    if suffix == ".c":
        return f"opgraft build {where}, then load {stem}.so"
    source = f"{stem}.c" if os.path.exists(f"{stem}.c") else "FILE.c"
    return f"opgraft build {source} -o {where}"


def stale_warn(where: str) -> None:
    """A warning where the C file beside a module is newer than it."""
    source = f"{os.path.splitext(where)[0]}.c"
    try:
        is_newer = os.stat(source).st_mtime_ns > os.stat(where).st_mtime_ns
    except OSError:  # there is no such source
        return
    if is_newer:
        warnings.warn(
            f"opgraft: {where} is older than {source}; build it again: "
            f"{how_to_build(where)}", RuntimeWarning, stacklevel=3)
