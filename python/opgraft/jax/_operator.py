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

from .._base import dtypes
from .._base.absorb import Absorb
from .._base.tables import Description
from .._base.values import Value, bind, plain, read
from . import _symbols, _values
from ._file import File

_FUNCTIONS_MAX = 1024  # for how many choices of other arguments one is kept


class Operator:
    """Call it with arrays; under jit, grad and vmap as well."""

    target = ""  # XLA's name for it

    def __init__(self, find: Callable[[str], Operator], file: File,
                 index: int) -> None:
        self._find = find  # an operator of the same module
        self._file = file
        self._index = index
        self.description = d = Description(file.describe(index))
        self.name = self.__name__ = d.name
        self.__doc__ = d.tables["doc"] or d.tables["schema"]
        self._tensors = [i for i, p in enumerate(d.params)
                         if p["tensor"] is not None]
        self._attrs = [i for i, p in enumerate(d.params)
                       if p["attr"] is not None]
        self._function = functools.lru_cache(_FUNCTIONS_MAX)(self._make)
        self._jitted = jax.jit(self._traced, static_argnums=1)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.call(bind(self.description, args, kwargs))

    def __repr__(self) -> str:
        return f"<opgraft.jax operator {self.description.tables['schema']}>"

    # --- Arguments ---

    def _array(self, param: dict[str, Any], value: Any) -> Any:
        if value is None:
            return None
        if param["list"]:
            return [None if v is None else jnp.asarray(v) for v in value]
        return jnp.asarray(value)

    def call(self, values: list[Any]) -> Any:
        """The results of a call with a value for each parameter."""
        params = self.description.params
        tensors = tuple(self._array(params[i], values[i])
                        for i in self._tensors)
        attrs = tuple(read(self.name, params[i], values[i])
                      for i in self._attrs)
        return self._jitted(tensors, attrs)

    def _traced(self, tensors: tuple[Any, ...], attrs: tuple[Value, ...]) -> Any:
        return self._function(attrs)(*tensors)

    # --- Sizes and the call ---

    def _words(self, tensors: tuple[Any, ...], attrs: tuple[Value, ...],
               kept: list[Any]) -> list[int]:
        words: list[int] = []
        for i, value in zip(self._tensors, tensors):
            if self.description.params[i]["list"]:
                words.append(len(value or ()))
                for entry in value or ():
                    words += self._tensor_words(i, entry)
            else:
                words += self._tensor_words(i, value)
        for value in attrs:
            words += _values.words(value, kept)
        return words

    def _tensor_words(self, param: int, array: Any) -> list[int]:
        if array is None:
            return [0]
        name = dtypes.dtype_name(array.dtype)
        if name not in dtypes.CODES:
            raise TypeError(
                f"{self.name}: {self.description.params[param]['name']} is "
                f"{name}, a type that no declaration has")
        return [1, *dtypes.CODES[name], len(array.shape), *array.shape]

    def _fresh(self, tensors: tuple[Any, ...],
               attrs: tuple[Value, ...]) -> list[Any]:
        """Type and sizes of each fresh result, a list for a list."""
        if _symbols.are_symbols(tensors):
            return [self._struct(dtypes.host_name(name), shape)
                    for name, shape in _symbols.shapes(
                        self.description, tensors,
                        [plain(v) for v in attrs])]
        kept: list[Any] = []
        words = iter(self._file.infer(
            self._index, self._words(tensors, attrs, kept)))

        def one() -> jax.ShapeDtypeStruct:
            code, bits, rank = (next(words) for _ in range(3))
            return self._struct(dtypes.numpy_name(code, bits),
                                tuple(next(words) for _ in range(rank)))

        return [[one() for _ in range(next(words))] if r["list"] else one()
                for r in self.description.fresh]

    def _struct(self, name: str, shape: tuple[Any, ...]) -> jax.ShapeDtypeStruct:
        dtype = jnp.dtype(name)
        if jax.dtypes.canonicalize_dtype(dtype) != dtype:
            raise TypeError(
                f"{self.name}: a result is {name}, which JAX has only with "
                "jax.config.update(\"jax_enable_x64\", True)")
        return jax.ShapeDtypeStruct(shape, dtype)

    def _given(self, tensors: tuple[Any, ...]) -> dict[str, Any]:
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
        """One custom call of XLA's."""
        d = self.description
        fresh = self._fresh(tensors, attrs)
        results: list[Any] = jax.tree.leaves(fresh)
        buffers: list[Any] = []
        aliases: dict[int, int] = {}
        written: list[tuple[int, int]] = []  # param, buffer
        for i, value in zip(self._tensors, tensors):
            if i in d.mutated and value is not None:
                written.append((i, len(buffers)))
            buffers += jax.tree.leaves(value)
        for _, buffer in written:
            aliases[buffer] = len(results)
            results.append(jax.ShapeDtypeStruct(buffers[buffer].shape,
                                                buffers[buffer].dtype))
        attributes = self._given(tensors)
        for i, value in zip(self._attrs, attrs):
            default = read(d.name, d.params[i], d.defaults[i])
            attributes |= _values.attributes(d.params[i]["name"], value, default)
        out = jax.ffi.ffi_call(
            self.target, results, input_output_aliases=aliases,
            has_side_effect=bool(  # else XLA merges equal calls
                {"side_effect", "random"} & set(d.tables["flags"])),
        )(*buffers, **attributes)
        return self._arrange(fresh, list(out), [i for i, _ in written])

    def _arrange(self, fresh: list[Any], out: list[Any],
                 written: list[int]) -> Any:
        """Fresh results, then each written argument's new value."""
        arrays = iter(out)
        values: list[Any] = [
            [next(arrays) for _ in r] if isinstance(r, list) else next(arrays)
            for r in fresh]
        values += [next(arrays) if i in written else None
                   for i in self.description.mutated]
        return values[0] if len(values) == 1 else tuple(values)

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
        if self.description.tables["grad"]["kind"] == "missing":
            raise TypeError(
                f"{self.name}: has no gradient; declare .backward in its C "
                "file, \"none\" where the gradient is zero")

    def _place(self, result: int) -> int:
        """Where the function's results have a declared one."""
        d = self.description
        alias = d.results[result]["alias"]
        if alias is None:
            return d.fresh.index(d.results[result])
        return len(d.fresh) + d.mutated.index(alias)

    def _saved(self, tensors: tuple[Any, ...], out: Any) -> Any:
        """What the gradient map reads, by param and by declared result."""
        sources = self.description.tables["grad"]["args"] or []
        results = out if isinstance(out, tuple) else (out,)
        params = {s["param"]: tensors[self._tensors.index(s["param"])]
                  for s in sources
                  if s["source"] == "param" and s["param"] in self._tensors}
        kept = {s["result"]: results[self._place(s["result"])]
                for s in sources if s["source"] == "result"}
        given = tuple(jax.tree.map(lambda x: jnp.zeros((0,)), t)
                      for t in tensors)  # which are absent, list lengths
        return params, kept, given

    def _backward(self, saved: Any, gradients: Any,
                  attrs: tuple[Value, ...]) -> tuple[Any, ...]:
        d = self.description
        params, kept, given = saved
        grad = d.tables["grad"]
        if grad["kind"] == "none":
            return (None,) * len(given)
        # A backward operator has PyTorch's gradient, the conjugate of JAX's.
        each = _conjugate(gradients if isinstance(gradients, tuple)
                          else (gradients,))
        values: list[Any] = []
        for s in grad["args"]:
            if s["source"] == "grad":
                values.append(each[self._place(s["result"])])
            elif s["source"] == "result":
                values.append(kept[s["result"]])
            elif s["source"] == "needs":
                values.append(True)
            elif s["param"] in params:
                values.append(params[s["param"]])
            else:
                values.append(plain(attrs[self._attrs.index(s["param"])]))
        other = self._find(grad["op"])
        values += other.description.defaults[len(values):]
        out = other.call(values)
        results = _conjugate(out if isinstance(out, tuple) else (out,))
        found = dict(zip(grad["targets"], results))
        return tuple(
            found.get(i) if given[t] is not None else None
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
