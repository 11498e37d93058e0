# SPDX-License-Identifier: Apache-2.0
"""Results lie in memory as eager mode's do: strides, and as_strided of the
result, for every operator of PyTorch's op_db, over operands that are
transposed, channels_last, expanded or sliced.

A round draws calls from a seed, which run in one graph."""

from __future__ import annotations

import collections
import contextlib
import functools
import itertools
import random
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from functorch.compile import aot_function, make_boxed_func
from torch._subclasses.fake_tensor import DataDependentOutputException
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

from opgraft._base import host
from opgraft._graph import backend, layouts, stats

host.prepare()
T = torch.Tensor
SAMPLES = 60  # of an operator, at most
CALLS = 12  # in a graph
# Memory that nobody wrote, tensors that are not strided, sizes that change.
# ATen's native_group_norm reads weights with gaps as if they had none. What is
# random, by a seed that op_db sets.
SKIPPED = ("empty", "new_empty", "sparse", "to_sparse", "item", "resize",
           "native_group_norm", "bernoulli", "randint",
           "multinomial", "nn.functional.dropout",
           "nn.functional.alpha_dropout", "svd_lowrank", "pca_lowrank",
           "nn.functional.fractional_max_pool",
           "nn.functional.multi_head_attention_forward")
INFOS = [i for i in op_db if i.dtypes and not i.name.startswith(SKIPPED)]


# --- Layouts ------------------------------------------------------------------


def transposed(x: T) -> T | None:
    return x.mT.contiguous().mT if x.dim() == 2 else (
        x.transpose(0, -1).contiguous().transpose(0, -1)
        if x.dim() > 2 else None)


def channels_last(x: T) -> T | None:
    return x.movedim(1, -1).contiguous().movedim(-1, 1) if x.dim() > 2 else None


def expanded(x: T) -> T | None:
    return x[:1].expand(x.shape) if x.dim() > 0 else None


def expanded_last(x: T) -> T | None:
    return x[..., :1].expand(x.shape) if x.dim() > 0 else None


def sliced(x: T) -> T | None:
    return x.repeat_interleave(2, -1)[..., ::2] if x.dim() > 0 else None


LAYOUTS = [transposed, channels_last, expanded, expanded_last, sliced]


# --- Calls --------------------------------------------------------------------


@dataclass
class Call:
    name: str
    op: Any
    flat: list[Any]
    spec: Any

    def tensors(self) -> list[T]:
        return [x for x in self.flat if isinstance(x, T)]

    def run(self, tensors: list[T]) -> list[T]:
        rest = iter(tensors)
        args, kwargs = pytree.tree_unflatten(
            [next(rest) if isinstance(x, T) else x for x in self.flat],
            self.spec)
        return [y for y in pytree.tree_leaves(self.op(*args, **kwargs))
                if isinstance(y, T)]


def samples(info: Any, rng: random.Random) -> list[tuple[list[Any], Any]]:
    """Those of op_db, and each with images in place of its tensors, of which
    some have dims of one place."""
    dtype = (torch.float32 if torch.float32 in info.dtypes
             else sorted(info.dtypes, key=str)[0])
    found = []
    torch.manual_seed(0)
    for s in itertools.islice(info.sample_inputs("cpu", dtype), SAMPLES):
        flat, spec = pytree.tree_flatten(((s.input, *s.args), s.kwargs))
        tensors = [x for x in flat if isinstance(x, T)]
        if not tensors or any(x.layout is not torch.strided or x.numel() == 0
                              for x in tensors) or any(
                                  isinstance(x, torch.Generator) for x in flat):
            continue
        found.append((flat, spec))
        image = [n if rng.random() < 0.8 else 1 for n in (2, 5, 3, 4)]
        found.append(([0.5 + torch.rand(image)
                       if isinstance(x, T) and x.is_floating_point() and x.dim()
                       else x for x in flat], spec))
    rng.shuffle(found)
    return found


def draw(info: Any, rng: random.Random) -> Call | None:
    """One that eager mode takes, and in which nothing is random."""
    for flat, spec in samples(info, rng)[:8]:
        layout = rng.choice(LAYOUTS)
        places = [i for i, x in enumerate(flat) if isinstance(x, T)]
        chosen = places if rng.random() < 0.5 else [rng.choice(places)]
        new = [x.detach() if isinstance(x, T) else x for x in flat]
        for i in chosen:
            laid = layout(new[i])
            new[i] = new[i] if laid is None else laid
        call = Call(f"{info.name} {info.variant_test_name} {layout.__name__} "
                    f"{[(tuple(new[i].shape), new[i].stride()) for i in places]}",
                    info.op, new, spec)
        if all(new[i] is flat[i] for i in places):
            continue
        with contextlib.suppress(Exception):
            state = torch.get_rng_state()
            ys = call.run(copies(call.tensors()))
            if ys and all(map(is_told, ys)) and torch.equal(
                    state, torch.get_rng_state()):
                return call
    return None


def is_told(y: T) -> bool:
    return (y.layout is torch.strided and y.numel() > 0 and not y.is_quantized
            and not y.is_conj() and not y.is_neg())


def copies(tensors: list[T]) -> list[T]:
    """Of equal layout; a copy of an expanded tensor is expanded."""
    new = []
    for x in tensors:
        y = torch.empty_strided(x.shape, x.stride(), dtype=x.dtype)
        memory(y).copy_(memory(x))
        new.append(y)
    return new


def extent(y: T) -> int:
    return 1 + sum((n - 1) * s for n, s in zip(y.shape, y.stride()))


def is_dense(y: T) -> bool:
    return extent(y) == y.numel()


def memory(y: T) -> T:
    return y.as_strided((extent(y),), (1,), y.storage_offset())


def strides(y: T) -> list[int]:
    """Of dims with more than one place: the others' mean nothing."""
    return [s for n, s in zip(y.shape, y.stride()) if n > 1]


def same(a: T, b: T) -> bool:
    if a.dtype != b.dtype or a.shape != b.shape or strides(a) != strides(b):
        return False
    with contextlib.suppress(AssertionError):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-3, equal_nan=True)
        return True
    return False


# --- Compiled -----------------------------------------------------------------


def results(calls: list[Call], wanted: list[list[T]], table: dict[Any, Any],
            compiler: Any) -> list[list[T]]:
    """Of each call its results, then the memory that eager's would cover."""
    given = [copies(c.tensors()) for c in calls]

    def f(*tensors: T) -> list[list[T]]:
        rest = iter(tensors)
        out = []
        for call, theirs, right in zip(calls, given, wanted):
            ys = call.run(list(itertools.islice(rest, len(theirs))))
            out.append(ys + [
                y.as_strided((extent(r),), (1,), r.storage_offset())
                for y, r in zip(ys, right) if is_dense(r)])
        return out

    return list(aot_function(f, fw_compiler=compiler, bw_compiler=compiler,
                             decompositions=table)(*itertools.chain(*given)))


def ours(calls: list[Call], wanted: list[list[T]]) -> list[list[T]]:
    region = stats.Region("layouts")
    return results(calls, wanted, backend._decompositions(),
                   lambda graph, inputs: backend.compile_graph(
                       graph, inputs, "inference", backend.Options(), region))


def torchs(calls: list[Call], wanted: list[list[T]]) -> list[list[T]]:
    """As under the backend aot_eager."""
    return results(calls, wanted, {},
                   lambda graph, _: make_boxed_func(graph.forward))


def faults(calls: list[Call], counts: collections.Counter[str]) -> list[str]:
    """Of calls that differ from eager; not of those that aot_eager has so."""
    wanted = [c.run(copies(c.tensors())) for c in calls]
    text = ""
    try:
        found = ours(calls, wanted)
    except DataDependentOutputException:
        found = []
    except Exception as error:
        found = []
        text = f"{type(error).__name__}: {error}"[:200]
    if not found and len(calls) > 1:
        return [f for c in calls for f in faults([c], counts)]
    if not found and not text:
        counts["its sizes depend on data"] += 1
        return []
    bad = []
    for call, right, ys in zip(calls, wanted, found or [[]]):
        all_right = right + [memory(r) for r in right if is_dense(r)]
        if len(ys) == len(all_right) and all(map(same, ys, all_right)):
            counts["as in eager"] += 1
        elif is_torchs(call, right, all_right):
            counts["aot_eager differs"] += 1
        else:
            counts["wrong"] += 1
            bad.append(f"{call.name}: " + (text or str(
                [(y.stride(), r.stride()) for y, r in zip(ys, all_right)
                 if not same(y, r)])))
    return bad


def is_torchs(call: Call, right: list[T], all_right: list[T]) -> bool:
    try:
        ys = torchs([call], [right])[0]
    except Exception:
        return True
    return len(ys) != len(all_right) or not all(map(same, ys, all_right))


def run(infos: list[Any], rng: random.Random,
        counts: collections.Counter[str]) -> list[str]:
    calls = [c for i in infos if (c := draw(i, rng)) is not None]
    return faults(calls, counts) if calls else []


@pytest.mark.parametrize("part", range(2))
def test_results_lie_as_in_eager(part: int) -> None:
    rng = random.Random(part)
    counts: collections.Counter[str] = collections.Counter()
    assert run(rng.sample(INFOS, CALLS), rng, counts) == []
    assert counts["as in eager"] > 0


# Where torch's decomposition or shape function has another layout.
KNOWN = ["roll", "heaviside", "copysign", "floor_divide", "div", "addr", "lcm",
         "isin", "xlogy", "__rpow__", "logaddexp", "logaddexp2", "logical_and",
         "logical_or", "logical_xor", "nn.functional.binary_cross_entropy",
         "nn.functional.logsigmoid", "nn.functional.rrelu",
         "nn.functional.max_unpool2d", "nn.functional.nll_loss", "nn.functional.batch_norm"]


def test_layouts_that_torch_loses() -> None:
    rng = random.Random(0)
    counts: collections.Counter[str] = collections.Counter()
    assert run([i for i in INFOS if i.name in KNOWN], rng, counts) == []
    assert counts["as in eager"] > 0


def expanded_results() -> list[tuple[str, Call]]:
    """Operators of the host that give expanded tensors, and one that does
    not."""
    row, flat = torch.randn(1, 3), torch.zeros(2, 2)
    found = [
        ("view_as_real", lambda x: torch.view_as_real(
            (x + 1j * x).expand(4, 3)), [row]),
        ("view_as_real", lambda x: torch.view_as_real(
            (x + 1j * x).expand(4, 3)) + 1, [row]),
        ("expanded", lambda x: torch.ops.layouts.expanded(x), [row]),
        ("expanded", lambda x: torch.ops.layouts.expanded(x) + 1, [row]),
        ("as_strided_scatter", lambda x, y: torch.as_strided_scatter(
            x.expand(4, 3), y, (2, 2), (1, 1), 0), [row, flat]),
        ("as_strided_scatter", lambda x, y: torch.as_strided_scatter(
            x.expand(4, 3), y, (2, 2), (1, 1), 0).sin(), [row, flat])]
    return [(name, Call(name, op, given, pytree.tree_flatten(
        (tuple(given), {}))[1])) for name, op, given in found]


def test_expanded_results() -> None:
    with torch.library._scoped_library("layouts", "FRAGMENT") as library:
        library.define("expanded(Tensor x) -> Tensor")
        for key, empty in (("CPU", torch.clone), ("Meta", torch.empty_like)):
            library.impl("expanded", lambda x, empty=empty: empty(x).expand(
                4, x.shape[1]), key)
        for name, call in expanded_results():
            right = call.run(copies(call.tensors()))
            assert all(map(same, ours([call], [right])[0], right)), name


def test_windows_of_one_row() -> None:
    """torch's decomposition reshapes them, which copies nothing there."""
    x = torch.randn(2, 1, 2, 3)
    for op in (lambda x: torch.nn.functional.unfold(x, (1, 2)),
               lambda x: torch.nn.functional.unfold(x[0], (1, 2)) + 1):
        call = Call("unfold", op, [x], pytree.tree_flatten(((x,), {}))[1])
        right = call.run([x])
        assert all(map(same, ours([call], [right])[0], right))


def test_numbers_alone() -> None:
    """Of operators that are laid out, those that take no tensor at all."""
    taken = []
    for name in layouts._ORDERS:
        packet, overload = name.split(".")
        op = getattr(getattr(torch.ops.aten, packet), overload)
        for more in ({}, {"rounding_mode": "trunc"}):
            try:
                wanted = op(7, 2, **more)
            except (RuntimeError, TypeError):
                continue
            taken.append(name)
            f = functools.partial(op, 7, 2, **more)
            found = torch.compile(lambda x, f=f: (f(), x + 1),
                                  backend="opgraft")(torch.ones(2))[0]
            assert torch.equal(found, wanted), name
    assert {"div.Tensor_mode", "floor_divide.default"} <= set(taken)


@pytest.mark.full
def test_many(rounds: Any) -> None:
    def check(seed: int) -> collections.Counter[str]:
        rng, counts = random.Random(seed), collections.Counter[str]()
        bad = run(rng.sample(INFOS, CALLS), rng, counts)
        assert not bad, "\n".join(bad)
        return counts

    rounds(check, 400)
