# SPDX-License-Identifier: Apache-2.0
"""A device that torch knows and opgraft does not drive: its tensors hold one of
the CPU, and every operator of ATen runs on that."""

from __future__ import annotations

import collections
from typing import Any

import torch
from torch.utils import backend_registration

counts: collections.Counter[str] = collections.Counter()
_libraries: list[torch.library.Library] = []


class Other(torch.Tensor):
    own: torch.Tensor

    @staticmethod
    def __new__(cls, own: torch.Tensor) -> "Other":
        made = torch._C._acc.create_empty_tensor(own.shape, own.dtype)
        made.__class__ = cls
        made.own = own
        return made


def held(value: Any) -> Any:
    if isinstance(value, torch.device):
        return torch.device("cpu")
    return value.own if isinstance(value, Other) else value


def run(op: Any, *args: Any, **kwargs: Any) -> Any:
    counts[op.name().partition(".")[0]] += 1
    given = (*args, *kwargs.values())
    made = op(*map(held, args), **{k: held(v) for k, v in kwargs.items()})
    return next((v for v in given if isinstance(v, Other) and v.own is made),
                Other(made))


def _copied(source: Any, target: Any, _: bool = False) -> Any:
    held(target).copy_(held(source))
    return target


def register() -> None:
    backend_registration._setup_privateuseone_for_python_backend("other")
    others = torch.library.Library("_", "IMPL", "PrivateUse1")
    aten = torch.library.Library("aten", "IMPL", "PrivateUse1")
    _libraries.extend([others, aten])
    others.fallback(run)
    aten.impl("_copy_from", _copied)
    for name in ("view", "as_strided", "_reshape_alias"):
        op = getattr(torch.ops.aten, name).default
        aten.impl(name, lambda *args, op=op: run(op, *args))
