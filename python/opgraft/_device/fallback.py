# SPDX-License-Identifier: Apache-2.0
"""Operators without a kernel on the device: they run on the CPU, on copies.

Functions call each other by module-level names: a closure that calls itself
is a reference cycle, and would keep every copy until the next collection.
"""

from __future__ import annotations

import functools
import os
from typing import Any

import torch

from . import memory, state

# By a tensor's id: it, and its copy on the CPU.
Copies = dict[int, tuple[torch.Tensor, torch.Tensor]]


def run(op: Any, *args: Any, **kwargs: Any) -> Any:
    """The boxed fallback of the dispatch key."""
    return run_by(op, op, *args, **kwargs)


def run_by(function: Any, op: Any, *args: Any, **kwargs: Any) -> Any:
    """As `run`, by a function of tensors of the CPU."""
    device = state.current()
    name = str(op)
    _check(op, name, device.name)
    device.fallbacks[name] += 1
    copies: Copies = {}
    host_args = [_to_host(a, copies) for a in args]
    host_kwargs = {k: _to_host(v, copies) for k, v in kwargs.items()}
    _wrap_numbers(op, host_args)
    made = _call(function, host_args, host_kwargs)
    for each in made if isinstance(made, (list, tuple)) else [made]:
        if isinstance(each, torch.Tensor) and each.layout != torch.strided:
            raise _not_strided(name, f"layout {each.layout}")
    _write_back(op, args, kwargs, copies)
    asked = kwargs.get("device")
    is_here = bool(copies) or (
        asked is not None and torch.device(asked).type == device.name)
    if asked is None:
        asked = next((t.device for t, _ in copies.values()), None)
    return _results(made, copies, asked, is_here)


def _call(function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """With a generator of the CPU in place of one of the device."""
    generators = [v for v in (*args, *kwargs.values())
                  if isinstance(v, torch.Generator)
                  and v.device.type == state.current().name]
    if not generators:
        return function(*args, **kwargs)
    given = generators[0]
    stand_in = torch.Generator("cpu")
    stand_in.set_state(given.get_state())
    made = function(*(stand_in if a is given else a for a in args),
                    **{k: stand_in if v is given else v
                       for k, v in kwargs.items()})
    given.set_state(stand_in.get_state())
    return made


def refuse_sparse(op: Any, *args: Any, **kwargs: Any) -> Any:
    """The fallback of the keys of the device's sparse tensors."""
    raise _not_strided(str(op), "a sparse layout")


def _not_strided(name: str, layout: str) -> NotImplementedError:
    return NotImplementedError(
        f"{name} needs a tensor of {state.current().name} with {layout}, "
        "expected torch.strided: the device has no sparse tensors; use one of "
        "the CPU, or call to_dense first")


def _check(op: Any, name: str, device: str) -> None:
    views = [r for r in op._schema.returns
             if r.alias_info is not None and not r.alias_info.is_write]
    if views:
        raise NotImplementedError(
            f"{name} gives a view, and has no kernel on {device}: a copy would "
            "not be one; ask for it at the project of opgraft")
    if os.environ.get("OPGRAFT_FALLBACK") == "error":
        raise NotImplementedError(
            f"{name} has no kernel on {device}, and OPGRAFT_FALLBACK=error "
            "forbids to run it on the CPU; give the operator a kernel for the "
            "device, or unset the variable")


def _is_here(value: Any) -> bool:
    return (isinstance(value, torch.Tensor)
            and value.device.type == state.current().name)


def _to_host(value: Any, copies: Copies) -> Any:
    if _is_here(value):
        if id(value) not in copies:
            copies[id(value)] = value, memory.to_host(value)
        return copies[id(value)][1]
    if isinstance(value, (list, tuple)):
        return [_to_host(v, copies) for v in value]
    if isinstance(value, torch.device) and value.type == state.current().name:
        return torch.device("cpu")
    return value


def _wrap_numbers(op: Any, host_args: list[Any]) -> None:
    """Numbers among the tensors reach a boxed kernel without their tensor. As
    tensors without dims they must not widen what the other ones give."""
    given = [t for a in host_args
             for t in (a if isinstance(a, (list, tuple)) else [a])
             if isinstance(t, torch.Tensor)]
    for position, argument in enumerate(op._schema.arguments):
        if position >= len(host_args):
            break
        value = host_args[position]
        if isinstance(value, (int, float, complex)) and \
                str(argument.type) == "Tensor":
            host_args[position] = _number(value, given)


def _number(value: complex, given: list[torch.Tensor]) -> torch.Tensor:
    wide = torch.tensor(value, device="cpu", dtype=(
        torch.complex128 if isinstance(value, complex)
        else torch.float64 if isinstance(value, float) else None))
    # They alone decide between types of floats, also of complex ones.
    if any(t.dim() > 0 and (t.is_floating_point() or t.is_complex())
           for t in given):
        return wide
    scalars = [t.dtype for t in given if t.dim() == 0]
    beside = functools.reduce(torch.promote_types, scalars, torch.bool)
    return wide.to(torch.result_type(
        torch.empty((), dtype=beside, device="cpu"), value))


def _write_back(op: Any, args: Any, kwargs: Any, copies: Copies) -> None:
    for position, argument in enumerate(op._schema.arguments):
        if argument.alias_info is None or not argument.alias_info.is_write:
            continue
        value = (kwargs.get(argument.name) if argument.kwarg_only
                 else args[position] if position < len(args)
                 else kwargs.get(argument.name))
        for tensor in value if isinstance(value, (list, tuple)) else [value]:
            if tensor is not None and id(tensor) in copies:
                _update(*copies[id(tensor)])


def _update(tensor: torch.Tensor, values: torch.Tensor) -> None:
    if tensor.shape != values.shape:  # an out= that the operator resized
        tensor.resize_(values.shape)
    values = memory.plain(values)
    if tensor.stride() == values.stride():
        memory.write_back(tensor, values)
    else:
        memory.copy(values, tensor)


def _results(made: Any, copies: Copies, asked: Any, is_here: bool) -> Any:
    if isinstance(made, (list, tuple)):
        each = [_results(m, copies, asked, is_here) for m in made]
        return type(made)(each) if type(made) in (list, tuple) else tuple(each)
    if not isinstance(made, torch.Tensor) or not is_here:
        return made
    for tensor, values in copies.values():
        if values is made:
            return tensor
    return memory.from_host(made, asked)
