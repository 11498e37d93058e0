# SPDX-License-Identifier: Apache-2.0
"""A graph file as a callable, without Dynamo and torch.export."""

from __future__ import annotations

import json
import os
from typing import Any, Callable, Mapping

import torch

from .. import _C
from .._base import host
from .backend import MAX_AUTOTUNE
from .freeze_call import GuardError
from .precision import flags as precision_flags

_MODES = {"reduce-overhead": 0, "max-autotune": MAX_AUTOTUNE}


def _resolve(tensor: Any) -> Any:
    """A tensor whose memory holds what it shows."""
    if not isinstance(tensor, torch.Tensor):
        raise GuardError(
            f"an input of a graph is {type(tensor).__name__}, expected a "
            "tensor or an int")
    return tensor.detach().resolve_conj().resolve_neg()


def _modules() -> tuple[Any, ...]:
    from .._load.module import modules

    return tuple(m._handle for m in modules() if m.namespace == m.name)


def _alone(graph: Any, path: str) -> None:
    """Raises where an operator needs a host that is not there."""
    missing = json.loads(graph.stats())["fallbacks"]
    if not missing:
        return
    names = sorted({f["operator"] for f in missing})
    raise RuntimeError(
        f"{path}: the engine has no {', '.join(names)}; load the module that "
        "has it first (opgraft.load), or run the model by opgraft.freeze")


class _Arguments:
    """Keywords are the names of inputs."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names

    def flatten(self, given: tuple[Any, ...],
                named: Mapping[str, Any] | None) -> tuple[Any, ...]:
        rest = dict(named or {})
        values = list(given)
        for name in self.names[len(given):]:
            if name not in rest:
                raise GuardError(
                    f"argument {name} is missing, expected "
                    f"{', '.join(self.names)}")
            values.append(rest.pop(name))
        if rest or len(values) > len(self.names):
            raise GuardError(
                f"got {len(values) + len(rest)} arguments"
                f"{''.join(f', {n}' for n in rest)}, expected "
                f"{', '.join(self.names) or 'none'}")
        return tuple(values)


def _no_explanation(_: Any) -> None:
    return None


def load_graph(path: str | os.PathLike[str], *, mode: str = "max-autotune",
               precision: str = "f32") -> Callable[..., Any]:
    """The graph of a file that opgraft.export wrote, as a callable.

    It takes the graph's inputs in order, or by their names: tensors on the
    CPU, and ints. It gives a tensor, or a tuple where the graph has not one
    result. Sizes may vary as the graph says; what does not fit raises
    GuardError. Constants are mapped, and so are packed weights where the file
    has them (export's `packed`), so processes share both. No gradient flows.
    Operators of modules that are loaded are found by name. `mode` is
    "max-autotune" (fused loops) or "reduce-overhead". `precision` is the option
    of torch.compile's backend: "f32", or, in mode max-autotune, "bf16" or
    "int8", "int4"... Calls from several threads are safe.

    OSError where the file cannot be read, RuntimeError where it holds something
    else, was altered (at the first call, where that is a constant), or needs an
    operator that is missing.

        >>> opgraft.export(lambda x: torch.relu(x) + 1, (torch.randn(4),), "m.og")
        >>> call = opgraft.load_graph("m.og")
        >>> call(torch.tensor([-1.0, 2.0, 3.0, 4.0]))
        tensor([1., 3., 4., 5.])
    """
    if mode not in _MODES:
        raise ValueError(f"load_graph: mode is {mode!r}, expected "
                         f"{' or '.join(map(repr, _MODES))}")
    flags = _MODES[mode] | precision_flags("load_graph", precision)
    if precision != "f32" and mode != "max-autotune":
        raise ValueError(f"load_graph: precision is {precision!r} in mode "
                         f"{mode!r}, expected mode 'max-autotune'")
    host.prepare()
    name = os.fspath(path)
    graph, (inputs, outputs) = _C.graph_open(
        name, _modules(), flags, _resolve,
        torch._C._AutoDispatchBelowADInplaceOrView)
    _alone(graph, name)
    names = tuple(n for n, _ in inputs)
    again = os.path.abspath(name)
    return _C.frozen_new(
        graph, names, tuple(True if is_int else None for _, is_int in inputs),
        [], _Arguments(names).flatten, None, outputs == 1, True, GuardError,
        torch.is_grad_enabled, _no_explanation,
        lambda: (_load_again, (again, mode, precision)))


def _load_again(path: str, mode: str, precision: str) -> Callable[..., Any]:
    return load_graph(path, mode=mode, precision=precision)
