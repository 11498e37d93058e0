# SPDX-License-Identifier: Apache-2.0
"""A frozen graph beyond its replay: how a call's arguments become the graph's
inputs, what is said of those that do not fit, and how it is made again."""

from __future__ import annotations

import inspect
from typing import Any, Callable, Mapping

import torch
import torch.utils._pytree as pytree

from .._base.counted import counted
from .._base.rules import NAMES


class GuardError(RuntimeError):
    """An argument of a frozen call that its graph was not made for.

        >>> call = opgraft.freeze(lambda x: torch.relu(x) + 1, (torch.randn(4),))
        >>> call(torch.ones(5))
        Traceback (most recent call last):
        opgraft...GuardError: argument x is f32[5], and the graph was frozen for f32[4]
    """


# --- Arguments ----------------------------------------------------------------


class Arguments:
    """The arguments that a graph was frozen with, by the names that the
    caller knows them by: "x", "masks[0]", "batch['ids']"."""

    def __init__(self, forward: Callable[..., Any], args: tuple[Any, ...],
                 kwargs: dict[str, Any], spec: Any, values: list[Any],
                 size_text: Callable[[Any], str]) -> None:
        """`size_text`: how the graph calls a size that varies."""
        self.spec = spec
        self.signature = _signature(forward)
        self.given = _bind(self.signature, args, kwargs)
        self.count, self.keywords = len(args), list(kwargs)
        paths = pytree.tree_flatten_with_path((args, kwargs))[0]
        self.names = tuple(self._name(path) for path, _ in paths)

        def named(sizes: Any) -> tuple[Any, ...]:
            return tuple(n if isinstance(n, int) else size_text(n)
                         for n in sizes)

        self.wanted = [
            (v.dtype, named(v.shape), named(v.stride()), v.device)
            if isinstance(v, torch.Tensor) else None for v in values]

    def _name(self, path: tuple[Any, ...]) -> str:
        which, first, *rest = path
        name = str(getattr(first, "key", getattr(first, "idx", first)))
        if which.idx == 0:
            parameters = list(self.given or ())
            name = (parameters[int(name)] if int(name) < len(parameters)
                    else f"argument {name}")
        return name + pytree.keystr(tuple(rest))

    def flatten(self, given: tuple[Any, ...], named: Mapping[str, Any] | None
                ) -> tuple[Any, ...]:
        """Keywords and defaults may be given otherwise than when it was
        frozen, as Python takes them."""
        call = (given, dict(named or {}))
        values, found = pytree.tree_flatten(call)
        if found != self.spec and self.given is not None:
            call = self._as_frozen(*call)
            values, found = pytree.tree_flatten(call)
        if found != self.spec:
            raise GuardError(self._other_structure(call))
        return tuple(values)

    def _as_frozen(self, args: tuple[Any, ...], kwargs: dict[str, Any]
                   ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        assert self.given is not None and self.signature is not None
        try:
            bound = self.signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise GuardError(
                f"{error}; the graph was frozen for "
                f"{', '.join(self.given) or 'no argument'}") from None
        parameters = self.signature.parameters
        for name, value in bound.items():
            default = parameters[name].default
            if name not in self.given and not _is_equal(value, default):
                raise GuardError(
                    f"argument {name} is {_show(value)}, and the graph was "
                    f"frozen for its default, {default!r}")
        for name in self.given:
            bound.setdefault(name, parameters[name].default)
        positional = list(self.given)[:self.count]
        return (tuple(bound[n] for n in positional),
                {n: bound[n] for n in self.keywords})

    def _other_structure(self, call: tuple[Any, Any]) -> str:
        values = [*call[0], *call[1].values()]
        specs = [s for part in self.spec.children()
                 for s in part.children()]
        if len(values) != len(specs):
            return (f"got {counted(len(values), 'argument')}, expected "
                    f"{len(specs)}")
        names = [*(list(self.given or ())[:self.count]), *self.keywords]
        for i, (value, spec) in enumerate(zip(values, specs)):
            found = pytree.tree_structure(value)
            if found != spec:
                name = names[i] if i < len(names) else str(i)
                return (f"argument {name} is built as {found}, and the graph "
                        f"was frozen for {spec}")
        return f"the arguments' keywords are {list(call[1])}, expected " \
               f"{self.keywords}"

    def explain(self, values: tuple[Any, ...]) -> str | None:
        """What does not fit of the first tensor that the graph refuses."""
        for name, value, wanted in zip(self.names, values, self.wanted):
            if wanted is None or not isinstance(value, torch.Tensor):
                continue
            dtype, sizes, strides, device = wanted
            if value.device != device:
                return (f"argument {name} is on {value.device}, and the graph "
                        f"was frozen for {device}")
            if value.dtype != dtype or not _fits(value.shape, sizes):
                return (f"argument {name} is {_show(value)}, and the graph was "
                        f"frozen for {_tensor(dtype, sizes)}")
            moving = [d for d, n in enumerate(value.shape) if n > 1]
            if value.numel() > 0 and not _fits(
                    [value.stride(d) for d in moving],
                    [strides[d] for d in moving]):
                return (f"argument {name} has strides {tuple(value.stride())}, "
                        "and the graph was frozen for strides "
                        f"({', '.join(map(str, strides))})"
                        + (f"; pass {name}.contiguous()"
                           if _is_dense(sizes, strides) else ""))
        return None


def _signature(forward: Callable[..., Any]) -> inspect.Signature | None:
    try:
        return inspect.signature(forward)
    except (TypeError, ValueError):
        return None


def _bind(signature: inspect.Signature | None, args: tuple[Any, ...],
          kwargs: dict[str, Any]) -> list[str] | None:
    """The names of what is given, in the caller's order; None where a name
    may stand for several."""
    if signature is None:
        return None
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    bound = signature.bind(*args, **kwargs).arguments
    if any(signature.parameters[n].kind in variable for n in bound):
        return None
    return [*list(bound)[:len(args)], *kwargs]


def _is_equal(value: Any, default: Any) -> bool:
    return value is default or (
        type(value) is type(default) and not isinstance(value, torch.Tensor)
        and bool(value == default))


def _fits(found: Any, wanted: Any) -> bool:
    """Sizes that vary fit any number: their ranges are checked elsewhere."""
    return len(found) == len(wanted) and all(
        not isinstance(w, int) or f == w for f, w in zip(found, wanted))


def _is_dense(sizes: Any, strides: Any) -> bool:
    expected: Any = 1
    for size, stride in zip(reversed(sizes), reversed(strides)):
        if not isinstance(stride, int) or not isinstance(expected, int):
            return True  # of sizes that vary: dense, or export refuses it
        if size != 1 and stride != expected:
            return False
        expected = expected * size if isinstance(size, int) else None
    return True


def _tensor(dtype: torch.dtype, sizes: Any) -> str:
    name = NAMES.get(dtype, str(dtype).removeprefix("torch."))
    return f"{name}[{', '.join(map(str, sizes))}]"


def _show(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return _tensor(value.dtype, value.shape)
    text = repr(value)
    return text if len(text) < 80 else f"{text[:77]}..."


# --- Made again ---------------------------------------------------------------


class Like:
    """A tensor's layout without its data: all that freezing reads of it."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.layout = tuple(tensor.shape), tensor.stride(), tensor.dtype

    def make(self) -> torch.Tensor:
        sizes, strides, dtype = self.layout
        return torch.empty_strided(sizes, strides, dtype=dtype).zero_()


class Recipe:
    """What a frozen graph was made of, so that pickle and deepcopy make it
    again, of the model as they copy it."""

    def __init__(self, freeze: Callable[..., Any], model: Any,
                 args: tuple[Any, ...], kwargs: Mapping[str, Any] | None,
                 dynamic_shapes: Any, options: Any, graph: Any) -> None:
        self.freeze, self.model = freeze, model
        self.call = pytree.tree_map_only(
            torch.Tensor, Like, (args, dict(kwargs or {})))
        self.rest = dynamic_shapes, options
        self.graph = graph

    def reduce(self) -> Any:
        return _freeze_again, (self.freeze, self.model, self.call, self.rest,
                               self.graph.text())


def _freeze_again(freeze: Callable[..., Any], model: Any, call: Any, rest: Any,
                  text: str) -> Any:
    args, kwargs = pytree.tree_map_only(Like, Like.make, call)
    dynamic_shapes, options = rest
    frozen = freeze(model, args, kwargs, dynamic_shapes=dynamic_shapes,
                    options=options)
    if frozen.graph.text() != text:
        raise RuntimeError(
            "the model freezes to another graph now than when the copied one "
            "was made: an attribute of it, its code or its operators have "
            "changed; freeze it anew")
    return frozen
