# SPDX-License-Identifier: Apache-2.0
"""The collector frees graphs that lead back to themselves."""

from __future__ import annotations

import gc
import weakref
from typing import Any, Callable

import pytest
import torch

import opgraft


class Token:
    """What a cycle holds: gone when the cycle is."""


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x) + 1


def compiled() -> Any:
    f = torch.compile(Model(), backend="opgraft", fullgraph=True)
    f(torch.ones(3))
    return f


def frozen() -> Any:
    return opgraft.freeze(Model(), (torch.ones(3),))


def made(kind: str, make: Callable[[], Any]) -> tuple[Any, Any]:
    """What `make` gives, and the object of this type that is new with it."""
    def alive() -> dict[int, Any]:
        return {id(o): o for o in gc.get_objects() if type(o).__name__ == kind}

    before = alive()
    kept = make()
    new = [o for key, o in alive().items() if key not in before]
    assert len(new) == 1
    return kept, new[0]


@pytest.mark.parametrize("kind, make", [
    ("CompiledGraph", compiled), ("CompiledGraph", frozen), ("Frozen", frozen),
])
def test_a_cycle_is_collected(kind: str, make: Callable[[], Any]) -> None:
    kept, graph = made(kind, make)
    found = gc.get_referents(graph)
    held = [o for o in found if type(o) in (dict, list)]
    # A frozen graph holds no container of its own that can change; the graph
    # that it runs does.
    if not held:
        held = [o for inner in found if type(inner).__name__ == "CompiledGraph"
                for o in gc.get_referents(inner) if type(o) is dict]
    token = Token()
    token.graph = graph  # type: ignore[attr-defined]
    if isinstance(held[0], dict):
        held[0]["token"] = token
    else:
        held[0].append(token)
    gone = weakref.ref(token)
    del kept, graph, found, held, token
    torch._dynamo.reset()
    gc.collect()
    assert gone() is None
