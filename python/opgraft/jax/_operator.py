# SPDX-License-Identifier: Apache-2.0
"""One operator as a JAX function: XLA calls its C kernel, the gradient comes
from the declaration's map, vmap from its shape rule."""

from __future__ import annotations

import functools
from typing import Any, Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_batching import custom_vmap

from .._base import dtypes, hosted
from .._base.absorb import Absorb
from .._base.values import Value, plain, read
from . import _sharding, _symbols, _values
from ._file import File

_FUNCTIONS_MAX = 1024  # for how many choices of other arguments one is kept


class Operator(hosted.Operator):
    """Call it with arrays; under jit, grad and vmap as well."""

    host = "jax"

    def __init__(self, find: Callable[[str], Operator], file: File,
                 index: int) -> None:
        super().__init__(find, file, index)
        self._function = functools.lru_cache(_FUNCTIONS_MAX)(self._make)
        self._jitted = jax.jit(self._traced, static_argnums=1)

    # --- Arguments ---

    def call(self, values: list[Any]) -> Any:
        params = self.description.params
        tensors = tuple(self._array(i, values[i], jnp.asarray)
                        for i in self._tensors)
        attrs = tuple(read(self.name, params[i], values[i])
                      for i in self._attrs)
        return self._jitted(tensors, attrs)

    def _traced(self, tensors: tuple[Any, ...], attrs: tuple[Value, ...]) -> Any:
        return self._function(attrs)(*tensors)

    # --- Sizes and the call ---

    def _fresh(self, tensors: tuple[Any, ...],
               attrs: tuple[Value, ...]) -> list[Any]:
        """Type and sizes of each fresh result, a list for a list."""
        if _symbols.are_symbols(tensors):
            return [self._struct((name, shape)) for name, shape in
                    _symbols.shapes(self.description, tensors,
                                    [plain(v) for v in attrs])]
        kinds = []
        for param, array in self._given(tensors):
            kinds.append((dtypes.dtype_name(array.dtype), array.shape))
            self._check_type(param, kinds[-1])
        return [[self._struct(k) for k in r] if isinstance(r, list)
                else self._struct(r)
                for r in self._infer(self._pack(tensors, attrs), kinds)]

    def _struct(self, kind: hosted.Kind) -> jax.ShapeDtypeStruct:
        name = dtypes.host_name(kind[0])
        dtype = jnp.dtype(name)
        if jax.dtypes.canonicalize_dtype(dtype) != dtype:
            raise TypeError(
                f"{self.name}: a result is {name}, which JAX has only with "
                "jax.config.update(\"jax_enable_x64\", True)")
        return jax.ShapeDtypeStruct(kind[1], dtype)

    def _given_flags(self, tensors: tuple[Any, ...]) -> dict[str, Any]:
        """Which tensors the buffers are, where that is not all in order."""
        flags: list[int] = []
        is_plain = True
        for i, value in zip(self._tensors, tensors):
            if self.description.params[i]["list"]:
                is_plain = False
                flags.append(len(value or ()))
                flags += [int(entry is not None) for entry in value or ()]
            else:
                is_plain &= value is not None
                flags.append(int(value is not None))
        return {} if is_plain else {"opgraft.given": np.array(flags, np.int64)}

    def _raw(self, tensors: tuple[Any, ...], attrs: tuple[Value, ...]) -> Any:
        """One custom call of XLA's; on several devices one for each, as the
        shape rule says."""
        fresh = self._fresh(tensors, attrs)
        written = [i for i, _ in self._written(tensors)]
        call: Callable[..., list[Any]] = functools.partial(
            self._custom_call, tensors, attrs)
        if jax.device_count() > 1 and not _symbols.are_symbols(tensors) \
                and _sharding.refusal(self.description) is None:
            call = _sharding.Shared(
                self._shares(fresh, tensors, attrs), call)
        return self._arrange(fresh, iter(call(*jax.tree.leaves(tensors))),
                             written)

    def _written(self, tensors: tuple[Any, ...]) -> list[tuple[int, int]]:
        """Each argument that is written, and which buffer it is."""
        found, at = [], 0
        for i, value in zip(self._tensors, tensors):
            if i in self.description.mutated and value is not None:
                found.append((i, at))
            at += len(jax.tree.leaves(value))
        return found

    def _custom_call(self, tensors: tuple[Any, ...], attrs: tuple[Value, ...],
                     *buffers: Any) -> list[Any]:
        """Of buffers, which stand for `tensors` and may be parts of them."""
        d = self.description
        tree = jax.tree.structure(tensors)
        results: list[Any] = jax.tree.leaves(
            self._fresh(jax.tree.unflatten(tree, buffers), attrs))
        aliases: dict[int, int] = {}
        for _, buffer in self._written(tensors):
            aliases[buffer] = len(results)
            results.append(jax.ShapeDtypeStruct(buffers[buffer].shape,
                                                buffers[buffer].dtype))
        attributes = self._given_flags(tensors)
        for i, value in zip(self._attrs, attrs):
            default = read(d.name, d.params[i], d.defaults[i])
            attributes |= _values.attributes(d.params[i]["name"], value, default)
        return list(jax.ffi.ffi_call(
            self.node, results, input_output_aliases=aliases,
            has_side_effect=bool(  # else XLA merges equal calls
                {"side_effect", "random"} & set(d.tables["flags"])),
        )(*buffers, **attributes))

    def _shares(self, fresh: list[Any], tensors: tuple[Any, ...],
                attrs: tuple[Value, ...]) -> _sharding.Shares:
        d = self.description
        values = dict(zip(self._tensors, tensors)) | {
            i: plain(v) for i, v in zip(self._attrs, attrs)}
        written = self._written(tensors)
        shapes = [tuple(r.shape) for r in fresh] + [
            tuple(values[i].shape) for i, _ in written]
        return _sharding.Shares(
            d, [values[i] for i in range(len(d.params))],
            [d.params[i]["tensor"] for i, v in zip(self._tensors, tensors)
             if v is not None],
            [d.params[i]["tensor"] for i, _ in written], shapes)

    # --- Transforms ---

    def _make(self, attrs: tuple[Value, ...]) -> Callable[..., Any]:
        """The function of the tensors alone."""
        @custom_vmap
        def batchable(*tensors: Any) -> Any:
            return self._raw(tensors, attrs)

        @batchable.def_vmap
        def batched(size: int, flags: Any, *tensors: Any) -> Any:
            absorbed = self._absorbed(size, flags, tensors, attrs)
            out = (_loop(batchable, flags, tensors) if absorbed is None
                   else absorbed)
            return out, jax.tree.map(lambda _: True, out)

        @jax.custom_vjp
        def function(*tensors: Any) -> Any:
            return batchable(*tensors)

        def forward(*tensors: Any) -> Any:
            self._check_gradient()
            out = batchable(*tensors)
            return out, self._saved(tensors, out)

        def backward(saved: Any, gradients: Any) -> Any:
            return self._backward(saved, gradients, attrs)

        function.defvjp(forward, backward)
        return function

    def _absorbed(self, size: int, flags: Any, tensors: tuple[Any, ...],
                  attrs: tuple[Value, ...]) -> Any:
        """One call that does the whole batch, or None."""
        d = self.description
        plan = Absorb(d)
        carriers = [t for t, value in enumerate(tensors)
                    if plan.takes(t) and value is not None]
        if not plan.packs or any(
                flag and t not in carriers
                for t, flag in enumerate(flags)
                if not isinstance(flag, (list, type(None)))):
            return None
        out = list(tensors)
        for t in carriers:
            if not flags[t]:
                out[t] = jnp.broadcast_to(out[t], (size, *out[t].shape))
        if plan.has_broadcast:  # logical dims align at the right
            rank = max(out[t].ndim for t in carriers)
            for t in carriers:
                shape = out[t].shape
                out[t] = out[t].reshape(
                    size, *(1,) * (rank - out[t].ndim), *shape[1:])
        picked = {attr for attr, tensor in plan.picks if plan.takes(tensor)}
        moved = tuple(
            Value(v.kind, v.value + 1)
            if d.params[i]["attr"] in picked and v.value >= 0 else v
            for i, v in zip(self._attrs, attrs))
        return self._function(moved)(*out)

    # --- Gradients ---

    def _check_gradient(self) -> None:
        why = self._no_gradient()
        if why is not None:
            raise TypeError(why)

    def _saved(self, tensors: tuple[Any, ...], out: Any) -> Any:
        """What the gradient map reads, by param and by declared result."""
        sources = self.description.tables["grad"]["args"] or []
        results = out if isinstance(out, tuple) else (out,)
        params = {s["param"]: tensors[self._tensors.index(s["param"])]
                  for s in sources
                  if s["source"] == "param" and s["param"] in self._tensors}
        places = [self._place(s["result"]) for s in sources
                  if s["source"] == "result"]
        kept = {at: results[at] for at in places}
        given = tuple(jax.tree.map(lambda x: jnp.zeros((0,)), t)
                      for t in tensors)  # which are absent, list lengths
        return params, kept, given

    def _backward(self, saved: Any, gradients: Any,
                  attrs: tuple[Value, ...]) -> tuple[Any, ...]:
        params, kept, given = saved
        if self.description.tables["grad"]["kind"] == "none":
            return (None,) * len(given)
        # A backward operator has PyTorch's gradient, the conjugate of JAX's.
        each = _conjugate(gradients if isinstance(gradients, tuple)
                          else (gradients,))

        def param(i: int) -> Any:
            return (params[i] if i in params
                    else plain(attrs[self._attrs.index(i)]))

        found = self._gradients(param, kept.__getitem__, each.__getitem__)
        return tuple(
            _conjugate(found.get(i)) if given[t] is not None else None
            for t, i in enumerate(self._tensors))


def _conjugate(arrays: Any) -> Any:
    """Of those that are complex."""
    return jax.tree.map(
        lambda x: jnp.conj(x) if jnp.iscomplexobj(x) else x, arrays)


def _loop(function: Callable[..., Any], flags: Any,
          tensors: tuple[Any, ...]) -> Any:
    """One call for each entry of the batch."""
    leaves, tree = jax.tree.flatten(tensors)
    is_batched = jax.tree.leaves(flags)
    batch = [x for x, flag in zip(leaves, is_batched) if flag]

    def one(entries: list[Any]) -> Any:
        rest = iter(entries)
        each = [next(rest) if flag else x
                for x, flag in zip(leaves, is_batched)]
        return function(*jax.tree.unflatten(tree, each))

    return jax.lax.map(one, batch)
