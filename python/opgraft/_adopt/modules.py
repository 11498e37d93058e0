# SPDX-License-Identifier: Apache-2.0
"""Adopted functions in the places where models call the originals."""

from __future__ import annotations

import functools
import os
import sys
import types
from typing import Any, Mapping

from . import build
from .spec import Adoption, adopt_spec


def adopt_module(
    module: Any, operators: Mapping[str, Mapping[str, Any]] | str | os.PathLike[str],
) -> Adoption:
    """Replaces functions of a module by adopted ones, wherever they are called.

    module: the module, or any object that has them as attributes.
    operators: for each function's name what opgraft.adopt takes (schema,
        shape, …, or samples); or the file that opgraft.adopt_spec reads.

    What modules imported from it (`from kernels import silu_mul`) is replaced
    too. What comes back is for good, or a context manager; its unadopt() puts
    everything back. All is replaced or nothing.

    AttributeError where the module lacks a function, else what opgraft.adopt
    raises.

        >>> kernels = types.SimpleNamespace(cube=lambda x: x * x * x)
        >>> cube = dict(schema="cube(Tensor x) -> Tensor", shape="x[*N] -> [*N]",
        ...             dtype="x: f32 -> x")
        >>> with opgraft.adopt_module(kernels, {"cube": cube}) as adopted:
        ...     print(adopted, kernels.cube(torch.tensor(2.0)))
        <adopted SimpleNamespace (1 operator)> tensor(8.)
    """
    name = getattr(module, "__name__", None) or type(module).__name__
    made = adopt_spec(operators) if not isinstance(operators, Mapping) else (
        Adoption(name))
    try:
        if isinstance(operators, Mapping):
            for key, fields in operators.items():
                made.functions[key] = build.adopt(
                    _own(module, name, key), **fields)
        for key, function in made.functions.items():
            _replace(made, module, _own(module, name, key), function)
    except BaseException:
        made.unadopt()
        raise
    return made


def _own(module: Any, name: str, key: str) -> Any:
    try:
        return getattr(module, key)
    except AttributeError:
        near = ", ".join(sorted(
            k for k in dir(module)
            if not k.startswith("_") and callable(getattr(module, k))))
        raise AttributeError(
            f"{name} has no function {key!r}; it has {near}") from None


def _replace(made: Adoption, module: Any, old: Any, new: Any) -> None:
    places: list[Any] = [module]
    places += [m for m in list(sys.modules.values())
               if isinstance(m, types.ModuleType) and m is not module
               and not m.__name__.startswith("opgraft")]
    for place in places:
        names = [k for k, v in list(vars(place).items()) if v is old]
        for key in names:
            setattr(place, key, new)
            made.undo.append(
                functools.partial(_put_back, place, key, new, old))


def _put_back(place: Any, key: str, new: Any, old: Any) -> None:
    """Unless someone else has set it since."""
    if vars(place).get(key) is new:
        setattr(place, key, old)
