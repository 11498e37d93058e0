# SPDX-License-Identifier: Apache-2.0
"""Calls of each row of src/import/aten.def: those that op_db's samples make,
forward and backward, and those of own_calls.py. What is not kept is counted,
with the reason."""

from __future__ import annotations

import collections
import functools
import warnings
from dataclasses import dataclass
from typing import Any, Callable, Iterator

import own_calls
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

from opgraft import _C
from opgraft._base import host
from opgraft._graph import backend

host.prepare()
ROWS = sorted(_C.graph_rows())
ELEMENTS_MOST = 100_000
LEAVES_MOST = 40

@dataclass(frozen=True)
class Form:
    """How much is recorded. Calls are of one kind where the types and ranks of
    their tensors are equal."""

    samples: int  # of each operator of op_db and type
    of_kind: int
    of_row: int
    types: tuple[torch.dtype, ...]


SOME = Form(samples=2, of_kind=1, of_row=12, types=(
    torch.float32, torch.int64, torch.float64, torch.bfloat16, torch.bool,
    torch.uint8))
ALL = Form(samples=30, of_kind=6, of_row=240, types=(
    *SOME.types, torch.float16, torch.int8, torch.int16, torch.int32))

# Why a call is not kept: the words that skips are counted under.
ENOUGH = "enough calls of its kind are kept"
COMPLEX = "the IR has no complex values"
SPARSE = "it is given a sparse or a lazily conjugated or negated tensor"
MASKED = "the size of its result depends on data"
LARGE = f"it is given more than {ELEMENTS_MOST:,} elements"
LONG = f"it is given more than {LEAVES_MOST} arguments"
REFUSED = "eager refuses the sample"
OUTSIDE = "it reads memory in front of its argument, which only a host has"
UNCERTAIN = "ATen's own kernels disagree about it"
REASONS = (ENOUGH, COMPLEX, SPARSE, MASKED, LARGE, LONG, REFUSED, OUTSIDE,
           UNCERTAIN)


@dataclass
class Call:
    target: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def run(self) -> list[torch.Tensor]:
        found = self.target(*self.args, **self.kwargs)
        return [x for x in tree_flatten(found)[0] if x is not None]

    def given(self) -> tuple[Any, Any]:
        return self.args, self.kwargs

    def argument(self, name: str) -> Any:
        """By name, wherever it stands, or its default."""
        for place, arg in enumerate(self.target._schema.arguments):
            if arg.name != name:
                continue
            if place < len(self.args):
                return self.args[place]
            return self.kwargs.get(name, arg.default_value)
        raise KeyError(name)

    def with_leaves(self, change: Callable[[Any], Any]) -> Call:
        return Call(self.target, *tree_map(change, (self.args, self.kwargs)))

    def in_double(self) -> Call:
        """Its saved results are computed anew: those of a narrower type would
        be no results of the wider arguments."""
        wide = {torch.float32, torch.bfloat16, torch.float16}

        def one(x: Any) -> Any:
            if isinstance(x, torch.Tensor) and x.dtype in wide:
                return x.double()
            return torch.float64 if x in wide else x

        call = self.with_leaves(one)
        return Call(call.target, own_calls.saved_anew(
            str(call.target).removeprefix("aten."), call.args, call.kwargs),
            call.kwargs)


def reason_against(name: str, args: Any, kwargs: Any) -> str | None:
    leaves = tree_flatten((args, kwargs))[0]
    tensors = [x for x in leaves if isinstance(x, torch.Tensor)]
    if any(x.layout is not torch.strided for x in tensors):
        return SPARSE
    if any(x.dtype.is_complex for x in tensors):
        return COMPLEX
    if any(x.is_conj() or x.is_neg() for x in tensors):
        return SPARSE
    if name == "index.Tensor" and torch.bool in {x.dtype for x in tensors[1:]}:
        return MASKED
    if sum(x.untyped_storage().nbytes() // x.element_size()
           for x in tensors) > ELEMENTS_MOST:
        return LARGE
    if name == "as_strided.default" and len(args) > 3 and (
            args[3] < args[0].storage_offset()):
        return OUTSIDE
    return LONG if len(leaves) > LEAVES_MOST else None


def kept(x: Any) -> Any:
    """A copy of what a call is given, with its strides, in a copy of its
    storage: as_strided reads beyond its argument's own elements."""
    if not isinstance(x, torch.Tensor):
        return x
    x = x.detach()
    if any(s == 0 for s in x.stride()) or x.numel() == 0:
        return x.contiguous().clone()
    return torch.empty(0, dtype=x.dtype).set_(
        x.untyped_storage().clone(), x.storage_offset(), x.shape, x.stride())


class RecordingError(Exception):
    """A fault of this file, not of the sample."""


class Recorder(TorchDispatchMode):
    """Keeps the first calls of each row and kind."""

    def __init__(self, form: Form) -> None:
        super().__init__()
        self.form = form
        self.calls: dict[str, list[Call]] = collections.defaultdict(list)
        self.seen: collections.Counter[Any] = collections.Counter()
        self.left_out: collections.Counter[str] = collections.Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (),
                           kwargs: Any = None) -> Any:
        name = str(func).removeprefix("aten.")
        if name in WANTED:
            try:
                self.note(name, func, args, kwargs or {})
            except Exception as error:
                raise RecordingError(name) from error
        return func(*args, **(kwargs or {}))

    def note(self, name: str, func: Any, args: Any, kwargs: Any) -> None:
        tensors = [x for x in tree_flatten((args, kwargs))[0]
                   if isinstance(x, torch.Tensor)]
        kind = name, tuple((x.dtype, x.dim()) for x in tensors)
        reason = reason_against(name, args, kwargs)
        if reason is None and (
                self.seen[kind] >= self.form.of_kind
                or len(self.calls[name]) >= self.form.of_row):
            reason = ENOUGH
        if reason is None and not own_calls.is_certain(name, args):
            reason = UNCERTAIN
        if reason is not None:
            self.left_out[reason] += 1
            return
        self.seen[kind] += 1
        self.calls[name].append(
            Call(func, *tree_map(kept, (args, kwargs))))


def kept_decompositions() -> list[str]:
    """Operators that are taken apart before the engine sees them, but for those
    that write their arguments."""
    return sorted(str(op).removeprefix("aten.") for op in backend._decompositions()
                  if not op._schema.is_mutable and str(op).startswith("aten."))


DECOMPOSED = kept_decompositions()
WANTED = {*ROWS, *DECOMPOSED}


def op_samples(info: Any, dtype: torch.dtype, most: int) -> Iterator[Any]:
    torch.manual_seed(3)
    grad = dtype.is_floating_point and info.supports_autograd
    for i, sample in enumerate(
            info.sample_inputs_func(info, "cpu", dtype, grad)):
        if i >= most:
            return
        yield sample


def with_gradients(info: Any, sample: Any) -> None:
    out = info.op(sample.input, *sample.args, **sample.kwargs)
    for x in tree_flatten(out)[0]:
        if isinstance(x, torch.Tensor) and x.requires_grad:
            x.sum().backward(retain_graph=True)


@functools.cache
def recorded(form: Form) -> Recorder:
    """op_db's samples, run until each row has its calls."""
    recorder = Recorder(form)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for info in op_db:
            for dtype in form.types:
                if dtype not in info.dtypes:
                    continue
                for sample in op_samples(info, dtype, form.samples):
                    try:
                        with recorder:
                            with_gradients(info, sample)
                    except RecordingError:
                        raise
                    except Exception:
                        recorder.left_out[REFUSED] += 1
    return recorder


def target_of(row: str) -> Any:
    name, overload = row.removeprefix("prims.").split(".")
    packet = getattr(torch.ops.prims if row.startswith("prims.")
                     else torch.ops.aten, name)
    return getattr(packet, overload)


def calls_of(row: str, form: Form) -> list[Call]:
    own = [Call(target_of(row), *given) for given in own_calls.of(row)]
    return own + recorded(form).calls.get(row, [])
