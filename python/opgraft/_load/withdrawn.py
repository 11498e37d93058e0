# SPDX-License-Identifier: Apache-2.0
"""What is left in torch of an operator whose module was withdrawn.

torch frees an operator's entry with its last registration, and whoever still
holds the operator (a graph, `f = torch.ops.m.f.default`) then calls freed
memory. So one registration stays, of a key that no tensor here has, until the
name is registered again.
"""

from __future__ import annotations

from typing import Any

import torch

UNUSED_KEY = "QuantizedCPU"

_entries: dict[str, torch.library.Library] = {}


def _gone(*args: Any, **kwargs: Any) -> Any:
    raise RuntimeError("the operator's module was unloaded")


def keep_entry(space: str, name: str) -> None:
    library = torch.library.Library(space, "FRAGMENT")
    library.impl(name, _gone, UNUSED_KEY)
    _entries[f"{space}::{name}"] = library


def drop_entry(qualified: str) -> None:
    """Once the operator is registered anew."""
    library = _entries.pop(qualified, None)
    if library is not None:
        library._destroy()


def packets(space: str, names: list[str]) -> dict[str, Any]:
    """What torch.ops has of these operators, by name."""
    made = vars(getattr(torch.ops, space))
    bases = {name.partition(".")[0] for name in names}
    return {base: made[base] for base in bases if base in made}


def redirect(space: str, found: dict[str, Any]) -> None:
    """Once their library is gone: torch.ops forgets the operators, and what
    someone holds of them reaches what has their name when it is called."""
    for base, packet in found.items():
        vars(getattr(torch.ops, space)).pop(base, None)
        overloads = [v for v in vars(packet).values()
                     if isinstance(v, torch._ops.OpOverload)]
        packet._op = _Now(space, base, "")
        for each in overloads:
            each._op = _Now(space, base, each._overloadname)


class _Now:
    """Calls the operator that has the name now."""

    def __init__(self, space: str, base: str, overload: str) -> None:
        self.name = (space, base, overload)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        space, base, overload = self.name
        op = getattr(getattr(torch.ops, space), base, None)
        if op is None:
            raise RuntimeError(
                f"{space}::{base} was unloaded; load its module again")
        if overload:
            op = getattr(op, overload)
        return op(*args, **kwargs)
