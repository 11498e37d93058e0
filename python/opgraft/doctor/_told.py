# SPDX-License-Identifier: Apache-2.0
"""What a changed script tells of an observed run: calls that are watched, and
lines of JSON, appended to a file that the run's environment names."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch

FILE = "OPGRAFT_DOCTOR_TOLD"
MOST = 50  # calls that are looked at, of each callable


class Call(NamedTuple):
    """A call that was watched."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    result: Any
    is_unchanged: bool  # the call wrote to none of its tensors


def watched(fn: Callable[..., Any], told: Callable[[Call], Any]
            ) -> Callable[..., Any]:
    """`fn`, of whose first calls is told what `told` makes of them."""
    count = 0

    def call(*args: Any, **kwargs: Any) -> Any:
        nonlocal count
        count += 1
        if count > MOST:
            return fn(*args, **kwargs)
        given = tensors([args, kwargs])
        before = [t.detach().clone() for t in given]
        result = fn(*args, **kwargs)
        tell(told(Call(args, kwargs, result,
                       all(map(_is_same, given, before)))))
        return result

    return call


def tensors(value: Any) -> list[torch.Tensor]:
    return [t for t in torch.utils._pytree.tree_leaves(value)
            if isinstance(t, torch.Tensor)]


def _is_same(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.shape == b.shape and torch.equal(
        torch.nan_to_num(a.detach()), torch.nan_to_num(b))


def tell(what: Any) -> None:
    """In the observed run."""
    with open(os.environ[FILE], "a", encoding="utf-8") as out:
        out.write(json.dumps(what) + "\n")


def source_of(fn: Callable[..., Any]) -> str:
    """An expression for a function of a module, wherever it is put."""
    return (f'__import__("{fn.__module__}", fromlist=["{fn.__name__}"])'
            f".{fn.__name__}")


def lines(path: str) -> Iterator[Any]:
    """What was told; nothing where no call came by."""
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            yield from map(json.loads, file)
