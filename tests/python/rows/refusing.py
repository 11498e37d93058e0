# SPDX-License-Identifier: Apache-2.0
"""Whether eager and the compiled graph refuse the same calls."""

from __future__ import annotations

import collections
import functools
import itertools
import random
import re
import warnings
from typing import Any, Callable, Iterator

import torch
from borders import borders, enlarged, tensors_of
from functorch.compile import aot_function
from recorded import DECOMPOSED, ROWS, SOME, Call, calls_of
from torch.utils._pytree import tree_flatten, tree_unflatten

from opgraft._graph import backend, stats

MODES = ("reduce-overhead", "max-autotune")
FORMS = ("few", "many")
MANY = 9_000

# Calls that one side alone refuses, by the operator and a part of what is said.
EXCUSED = [
    (".*", r"not implemented for '|can't be cast to the desired output type",
     "eager's kernel lacks the type, ours computes in it"),
    (".*", "Found no NVIDIA driver",
     "a device by number is CUDA's, of a torch that was built for it"),
    (".*", "a leaf Variable that requires grad",
     "torch.compile refuses it where it traces, and backends never see it"),
    (".*", "pin_memory=True requires", "no memory of a plan is pinned"),
    (r"aten\.grid_sampler.*", "Invalid (interpolation|padding) mode",
     "eager takes a mode without a meaning for another one"),
    (r"aten\._embedding_bag_per_sample_weights_backward\.default",
     "out of range", "eager reads outside of its tensors"),
    (r"aten\.(diagonal|slice|select)_backward\.default", "must match the size",
     "a gradient of another shape than the result's, which autograd never gives"),
    (r"aten\.embedding_dense_backward\.default", "out of range|scalar types",
     "eager passes over indices that its forward refuses"),
    (r"aten\._embedding_bag_\w*backward\.default", "index_add_|scalar types",
     "indices of a type that its forward refuses"),
    (r"aten\.nll_loss_(for|back)ward\.default",
     r"(gather|scatter)\(\)|another shape than was inferred|a single element",
     "torch's shape function takes no bytes, and any reduction for a sum"),
    (r"aten\.native_(layer|batch)_norm_backward\.default",
     "normalized_shape|does not have a device|to broadcast a dimension",
     "arguments of another shape than forward's, which autograd never gives"),
    (r"aten\.upsample_.*", "Input and output sizes should be greater than 0",
     "torch takes resizing apart before a backend sees it"),
    (r"aten\.huber_loss\.default", "not a valid value for reduction",
     "eager takes a reduction without a meaning for another one"),
    (r"aten\.convolution_backward\.default",
     "negative dimension|another shape than was inferred",
     "sizes of another bias than forward's, which autograd never gives"),
    (r"aten\._foreach_add\.List", "alpha must not be a floating point number",
     "eager asks for an alpha of the tensors' kind"),
    (r"aten\.new_empty_strided\.default", "Storage size calculation overflowed",
     "no storage is made of a result's strides"),
]


def compiled(function: Callable[..., Any], mode: str) -> Callable[..., Any]:
    region = stats.Region("refusing")
    options = backend.Options(mode=mode, tune_s=0)

    def compiler(kind: str) -> Any:
        return lambda gm, inputs: backend.compile_graph(
            gm, inputs, kind, options, region)

    return aot_function(
        function, fw_compiler=compiler("forward"),
        bw_compiler=compiler("backward"),
        decompositions=backend._decompositions())


def of_tensors(call: Call) -> tuple[Callable[..., Any], list[torch.Tensor]]:
    """The call as a function of its tensors, and they."""
    leaves, spec = tree_flatten((call.args, call.kwargs))
    places = [i for i, x in enumerate(leaves) if isinstance(x, torch.Tensor)]

    def run(*tensors: torch.Tensor) -> Any:
        full = list(leaves)
        for i, x in zip(places, tensors, strict=True):
            full[i] = x
        args, kwargs = tree_unflatten(full, spec)
        return call.target(*args, **kwargs)

    return run, [leaves[i] for i in places]


class Compiled:
    """An operator in a mode. A graph serves the calls that differ in what their
    tensors hold."""

    def __init__(self, mode: str) -> None:
        self.mode = mode
        self.graphs: dict[Any, Callable[..., Any]] = {}

    def __call__(self, call: Call) -> Any:
        leaves, spec = tree_flatten((call.args, call.kwargs))
        rest = tuple(repr(x) for x in leaves if not isinstance(x, torch.Tensor))
        kinds = tuple((x.dtype, x.shape, x.stride(), x.requires_grad)
                      for x in tensors_of(leaves))
        run, tensors = of_tensors(call)
        key = call.target, spec, rest, kinds
        if key not in self.graphs:
            self.graphs[key] = compiled(run, self.mode)
        return self.graphs[key](*tensors)


def said(run: Callable[[Call], Any], call: Call, grad: bool) -> str | None:
    """What it raises, forward or backward; None where it raises nothing."""
    def fresh(x: Any) -> Any:
        if not isinstance(x, torch.Tensor):
            return x
        return x.detach().clone().requires_grad_(grad and x.is_floating_point())

    torch.manual_seed(1)
    try:
        found = run(call.with_leaves(fresh))
        of = [x for x in tree_flatten(found)[0]
              if isinstance(x, torch.Tensor) and x.requires_grad]
        if grad and of:
            sum(x.sum() for x in of).backward()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def excuse(call: Call, text: str) -> str | None:
    name = str(call.target)
    for operator, part, reason in EXCUSED:
        if re.fullmatch(operator, name) and re.search(part, text):
            return reason
    return None


def problem(call: Call, what: str, ours: Compiled, grad: bool) -> str | None:
    """None where both refuse the call or both take it."""
    wanted = said(lambda c: c.target(*c.args, **c.kwargs), call, grad)
    found = said(ours, call, grad)
    if (wanted is None) == (found is None):
        return asked_for(what, wanted, found)
    return (f"eager {wanted or 'takes it'}".splitlines()[0][:160]
            + f"; ours {found or 'takes it'}".splitlines()[0][:160])


def asked_for(what: str, wanted: str | None, found: str | None) -> str | None:
    """Where eager names the value that was asked for, so do we."""
    value = what.split(": ")[-1]
    if wanted is None or found is None or not re.fullmatch(r"-\d+", value):
        return None
    if not re.search(rf"index {value}\b", wanted) or re.search(
            rf"{value}\b", found):
        return None
    return f"eager names {value}, ours: {found}"[:200]


class Tally:
    def __init__(self) -> None:
        self.problems: list[str] = []
        self.counts: collections.Counter[str] = collections.Counter()

    def note(self, call: Call, what: str, place: str, found: str | None
             ) -> None:
        self.counts["calls"] += 1
        if found is None:
            return
        reason = excuse(call, found)
        if reason is None:
            self.problems.append(f"{call.target}, {place}, {what}: {found}")
        else:
            self.counts[f"left: {reason}"] += 1


# ATen's kernels write where their indices say, whatever memory that is; flash
# attention ends the process where heads have no elements, batch norm reads behind
# the end of statistics that are too short.
UNCHECKED = re.compile(r"\w*max_pool\w*_backward\..*|_unsafe_\w*index\w*\..*|"
                       r"_index_put_impl.*|_embedding_bag_dense_backward\..*|"
                       r"\w*flash_attention\w*_backward\..*|"
                       r"_native_batch_norm_legit_no_training\..*")


@functools.cache
def base_calls() -> list[Call]:
    """One for each operator and kind of the recorded, as they are asked."""
    return [call for name in (*ROWS, *DECOMPOSED)
            if not UNCHECKED.fullmatch(name) for call in calls_of(name, SOME)]


def beside(call: Call, form: str, mode: str, grad: bool, tally: Tally,
           rng: random.Random, most: int) -> None:
    """Tries calls beside this one, `most` at most."""
    base = call if form == "few" else enlarged(call, MANY)
    if base is None:
        tally.counts["no larger call"] += 1
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours = Compiled(mode)
        found = list(borders(base, rng))
        for what, other in rng.sample(found, min(most, len(found))):
            tally.note(other, what, f"{form} elements, {mode}" + (
                ", gradient" if grad else ""), problem(other, what, ours, grad))


def draws(rng: random.Random) -> Iterator[tuple[Call, str, str, bool]]:
    calls = base_calls()
    while True:
        for call in rng.sample(calls, len(calls)):
            yield (call, rng.choice(FORMS), rng.choice(MODES),
                   rng.random() < 0.3)


def search(seed: int, bases: int, most: int) -> Tally:
    tally, rng = Tally(), random.Random(seed)
    for call, form, mode, grad in itertools.islice(draws(rng), bases):
        beside(call, form, mode, grad, tally, rng, most)
    return tally
