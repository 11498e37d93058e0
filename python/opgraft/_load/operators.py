# SPDX-License-Identifier: Apache-2.0
"""An operator of torch.ops, made when something first needs it.

torch takes as long to make these objects as to define the operator, and the
fast path never looks at them: a call that leaves it, a gradient or a compiler
does.
"""

from __future__ import annotations

import threading
from typing import Any

import torch

_lock = threading.Lock()  # torch's maker makes two for two threads at once


class Operator:
    """`overload` is the torch.ops object, `redispatch` its method; each is
    looked up once. To call an Operator is to call `overload`."""

    overload: Any
    redispatch: Any

    def __init__(self, space: str, name: str) -> None:
        self._space = space
        self._name = name  # with overload

    @classmethod
    def of(cls, overload: Any) -> "Operator":
        """One that is there."""
        space, _, name = overload.name().partition("::")
        op = cls(space, name)
        op._set(overload)
        return op

    def __getattr__(self, attribute: str) -> Any:
        if attribute not in ("overload", "redispatch"):
            raise AttributeError(attribute)
        with _lock:
            self._set(self._find())
        return vars(self)[attribute]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.overload(*args, **kwargs)

    def _find(self) -> Any:
        base, _, overload = self._name.partition(".")
        packet = getattr(getattr(torch.ops, self._space), base, None)
        if packet is None:
            raise RuntimeError(f"{self._space}::{self._name} was unloaded; "
                               "load its module again")
        return getattr(packet, overload or "default")

    def _set(self, overload: Any) -> None:
        self.redispatch = overload.redispatch
        self.overload = overload


def defined(space: str, name: str) -> Operator:
    """The operator of this name, which was defined just now. Where torch has an
    attribute of this name, it is looked up at once: that may be an error."""
    op = Operator(space, name)
    base, _, overload = name.partition(".")
    namespace = getattr(torch.ops, space)
    if (overload not in ("", "out") or base.startswith("_")
            or base in vars(namespace) or hasattr(type(namespace), base)):
        assert op.overload is not None
    return op
