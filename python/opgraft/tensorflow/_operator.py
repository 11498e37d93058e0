# SPDX-License-Identifier: Apache-2.0
"""One operator as a TensorFlow function: the C kernel, the gradient from the
declaration's map, shapes from its rule."""

from __future__ import annotations

import functools
from typing import Any, Callable, Iterator

import tensorflow as tf
from tensorflow.python.eager import context, execute
from tensorflow.python.framework import op_def_library

from .._base import dtypes, hosted, words
from .._base.hosted import Kind
from .._base.values import Value, plain, read
from ._file import File

_KEPT = 4096  # how many kinds of calls have their results' types kept
# Stand for sizes that are not known: far apart, so that two are not equal by
# chance, nor one a product of others.
_TRIALS = (1009, 2003)



class Operator(hosted.Operator):
    """Call it with tensors or arrays; under tf.function and a tape as well."""

    host = "tensorflow"

    def __init__(self, find: Callable[[str], Operator], file: File,
                 index: int) -> None:
        super().__init__(find, file, index)
        self._results = functools.lru_cache(_KEPT)(self._results_find)

    @tf.autograph.experimental.do_not_convert
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return super().__call__(*args, **kwargs)

    def register(self) -> None:
        """Makes the operator and its gradient known to TensorFlow."""
        super().register()
        tf.RegisterGradient(self.node)(self._gradient)

    # --- A call ---

    def call(self, values: list[Any]) -> Any:
        """`values` may be Values where they are not tensors."""
        d = self.description
        tensors = [self._array(i, values[i], tf.convert_to_tensor)
                   for i in self._tensors]
        attrs = [values[i] if isinstance(values[i], Value)
                 else read(self.name, d.params[i], values[i])
                 for i in self._attrs]
        inputs: list[Any] = []
        kinds: list[Kind] = []
        written: list[tuple[int, Kind]] = []
        for param, tensor in self._given(tensors):
            kinds.append(_kind(tensor))
            self._check_type(param, kinds[-1])
            inputs.append(tensor)
            if param in d.mutated:
                written.append((param, kinds[-1]))
        call = self._pack(tensors, attrs)
        fresh = self._results(tuple(call), tuple(kinds))
        out = self._made(inputs, call,
                         _flat(fresh) + [kind for _, kind in written])
        return self._arrange(fresh, iter(out), [i for i, _ in written])

    def _made(self, inputs: list[Any], call: list[int], kinds: list[Kind]
              ) -> list[Any]:
        """The outputs of one node."""
        types = [_type(name) for name, _ in kinds]
        attrs = ("Tin", [t.dtype.as_datatype_enum for t in inputs],
                 "Tout", [t.as_datatype_enum for t in types], "call", call,
                 "op", self.name)
        ctx = context.context()
        out: list[Any]
        if ctx.executing_eagerly():
            ctx.ensure_initialized()
            out = execute.execute(
                self.node.encode(), len(types), inputs, attrs, ctx)
        else:
            made = op_def_library.apply_op(
                self.node, inputs=inputs, call=call, Tout=types, op=self.name)
            out = [] if isinstance(made, tf.Operation) else made
            for tensor, (_, sizes) in zip(out, kinds):
                tensor.set_shape(sizes)
            inputs = list(out[0].op.inputs) if out else inputs
        if out and execute.must_record_gradient():
            execute.record_gradient(self.node, inputs, attrs, out)
        return out

    # --- Types and sizes of results ---

    def _results_find(self, call: tuple[int, ...], inputs: tuple[Kind, ...]
                      ) -> list[Any]:
        """Type and sizes of each fresh result, a list for a list."""
        if all(sizes is not None and None not in sizes for _, sizes in inputs):
            return self._hidden([self._infer(call, inputs)])
        if any(sizes is None for _, sizes in inputs):
            raise ValueError(f"{self.name}: the rank of an argument is not "
                             "known; give it by tf.ensure_shape")
        first: ValueError | None = None
        for fill in (_apart, _beside, _equal, _ones):
            try:
                return self._hidden([self._infer(call, fill(inputs, size))
                                     for size in _TRIALS])
            except ValueError as error:
                first = first or error
        raise ValueError(f"{self.name}: no sizes were found for those that are "
                         f"not known; give them by tf.ensure_shape: {first}")

    def _hidden(self, trials: list[list[Any]]) -> list[Any]:
        """A size that differs between trials, or that only the kernel finds,
        is not known."""
        flat = [_flat(results) for results in trials]
        if any(len(f) != len(flat[0]) for f in flat):
            raise ValueError(f"{self.name}: the number of results depends on a "
                             "size that is not known; give it by "
                             "tf.ensure_shape")

        def known(kinds: tuple[Kind, ...]) -> Kind:
            shapes = [sizes for _, sizes in kinds]
            if any(len(s) != len(shapes[0]) for s in shapes):
                raise ValueError(f"{self.name}: a result's rank depends on a "
                                 "size that is not known; give it by "
                                 "tf.ensure_shape")
            sizes = tuple(e[0] if len(set(e)) == 1 else None
                          for e in zip(*shapes))
            late = self.description.is_data_dependent and sizes
            return kinds[0][0], (None, *sizes[1:]) if late else sizes

        in_turn: Iterator[Any] = iter([known(kinds) for kinds in zip(*flat)])
        return [[next(in_turn) for _ in r] if isinstance(r, list)
                else next(in_turn) for r in trials[0]]

    # --- Gradients ---

    def _gradient(self, op: Any, *gradients: Any) -> list[Any]:
        """What tf.RegisterGradient asks for: a gradient for each input."""
        why = self._no_gradient()
        if why is not None:
            raise LookupError(why)
        if self.description.tables["grad"]["kind"] == "none":
            return [None] * len(op.inputs)
        given = words.unpack(self.description, list(op.get_attr("call")),
                             list(op.inputs))

        def param(i: int) -> Any:
            value = given[i]
            return plain(value) if isinstance(value, Value) else value

        def gradient(at: int) -> Any:
            return (tf.zeros_like(op.outputs[at]) if gradients[at] is None
                    else gradients[at])

        return self._by_input(given, self._gradients(
            param, op.outputs.__getitem__, gradient))

    def _by_input(self, given: list[Any], found: dict[int, Any]) -> list[Any]:
        each: list[Any] = []
        for i in self._tensors:
            if isinstance(given[i], list):
                entries = found.get(i) or [None] * len(given[i])
                each += [g for g, v in zip(entries, given[i]) if v is not None]
            elif given[i] is not None:
                each.append(found.get(i))
        return each


def _kind(tensor: Any) -> Kind:
    shape = tensor.shape
    sizes = None if shape.rank is None else tuple(shape.as_list())
    return dtypes.dtype_name(tensor.dtype.name), sizes  # type: ignore[return-value]


def _type(name: str) -> Any:
    return tf.as_dtype(dtypes.host_name(name))


def _flat(results: list[Any]) -> list[Kind]:
    return [kind for r in results
            for kind in (r if isinstance(r, list) else [r])]


# --- Sizes for those that are not known ---

Fill = tuple[Kind, ...]


def _filled(inputs: Fill, one: Callable[[int, int], int]) -> Fill:
    return tuple((name, tuple(one(i, axis) if size is None else size
                              for axis, size in enumerate(sizes)))
                 for i, (name, sizes) in enumerate(inputs))


def _apart(inputs: Fill, size: int) -> Fill:
    """Each another one."""
    return _filled(inputs, lambda i, axis: size + 101 * i + 7 * axis)


def _beside(inputs: Fill, size: int) -> Fill:
    """What another argument has there, counted from the last axis."""
    def one(i: int, axis: int) -> int:
        at = axis - len(inputs[i][1])
        known = [sizes[at] for _, sizes in inputs
                 if len(sizes) >= -at and sizes[at] is not None]
        return int(known[0]) if known else size - 7 * at

    return _filled(inputs, one)


def _equal(inputs: Fill, size: int) -> Fill:
    return _filled(inputs, lambda i, axis: size)


def _ones(inputs: Fill, size: int) -> Fill:
    return _filled(inputs, lambda i, axis: 1)
