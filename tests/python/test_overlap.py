# SPDX-License-Identifier: Apache-2.0
"""What a call writes shares memory with nothing else that it is given: such a
call is refused as torch refuses it, on every road."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from typing import Any, Callable, Iterator

import pytest
import torch

from opgraft import check_torch
from opgraft._base.rules import Description
from opgraft._load.batch import _invoke

ROOM = 2  # bytes of storage for each byte that two dense views need

# --- Roads ------------------------------------------------------------------------


def eager(f: Callable[..., Any]) -> Callable[..., Any]:
    return f


def compiled(backend: str) -> Callable[..., Any]:
    def road(f: Callable[..., Any]) -> Callable[..., Any]:
        torch._dynamo.reset()
        return torch.compile(f, backend=backend)

    return road


def dynamic(f: Callable[..., Any]) -> Callable[..., Any]:
    torch._dynamo.reset()
    return torch.compile(f, backend="opgraft", dynamic=True)


ROADS = {"eager": eager, "opgraft": compiled("opgraft"),
         "opgraft, dynamic": dynamic, "inductor": compiled("inductor"),
         "aot_eager": compiled("aot_eager")}


@pytest.fixture(params=ROADS)
def road(request: Any) -> Callable[..., Any]:
    return ROADS[request.param]


@pytest.fixture(scope="module")
def ops() -> Any:
    from opgraft import ops

    return ops


def base() -> torch.Tensor:
    return torch.randn(64, generator=torch.Generator().manual_seed(1))


def refuses(f: Callable[..., Any], *args: torch.Tensor, match: str) -> None:
    """And writes nothing."""
    before = [t.clone() for t in args]
    with pytest.raises(Exception, match=match):
        f(*args)
    for t, was in zip(args, before):
        assert torch.equal(t, was)


# --- Each rule, on every road -----------------------------------------------------


def test_out_that_overlaps_an_input_is_refused(ops: Any, road: Any) -> None:
    b = base()
    refuses(road(lambda x, w, y: ops.rms_norm(x, w, out=y)),
            b[:12].view(3, 4), b[40:44], b[4:16].view(3, 4),
            match="out is written and overlaps x")


def test_an_expanded_out_is_refused(ops: Any, road: Any) -> None:
    b = base()
    refuses(road(lambda x, w, y: ops.rms_norm(x, w, out=y)),
            b[:12].view(3, 4), b[40:44], b[20:24].expand(3, 4),
            match="out is written, and several of its elements")


def test_in_place_on_memory_that_overlaps_itself_is_refused(
    ops: Any, road: Any
) -> None:
    b = base()
    for x in (b[:4].expand(3, 4), b.as_strided((3, 4), (3, 1))):
        refuses(road(lambda x, w: ops.rms_norm_(x, w)), x, b[40:44],
                match="x is written, and several of its elements")


def test_one_tensor_as_two_written_arguments_is_refused(
    ops: Any, road: Any
) -> None:
    b = base()
    x = b[:12].view(3, 4)
    for residual in (x, b[:12].view(3, 4), b[8:20].view(3, 4)):
        refuses(road(lambda x, r, w: ops.fused_add_rms_norm(x, r, w)),
                x, residual, b[40:44],
                match="x is written and (is the same memory as|overlaps) residual")


def test_an_input_inside_what_is_written_is_refused(ops: Any, road: Any) -> None:
    b = base()
    refuses(road(lambda x, w: ops.rms_norm_(x, w)), b[:12].view(3, 4), b[4:8],
            match="x is written and overlaps weight")


def test_out_that_requires_grad_is_refused(ops: Any, road: Any) -> None:
    b = base()
    y = torch.zeros(3, 4)
    f = road(lambda x, w, y: ops.rms_norm(x, w, out=y))
    for x, out in ((b[:12].view(3, 4), y.clone().requires_grad_()),
                   (b[:12].view(3, 4).clone().requires_grad_(), y)):
        refuses(f, x, b[40:44], out,
                match="out=... arguments don't support automatic differentiation")
        with torch.no_grad():
            assert torch.equal(f(x, b[40:44], out), ops.rms_norm(x, b[40:44]))


@pytest.mark.parametrize("slow", [False, True])
def test_a_write_to_an_inference_tensor_is_refused(ops: Any, slow: bool) -> None:
    rms_norm_ = torch.ops.rms_norm.rms_norm_ if slow else ops.rms_norm_
    out_form = (torch.ops.rms_norm.rms_norm.out if slow
                else ops.rms_norm)
    fused = (torch.ops.fused_add_rms_norm.fused_add_rms_norm if slow
             else ops.fused_add_rms_norm)
    w = torch.ones(4)
    with torch.inference_mode():
        x, y, z = torch.randn(3, 4), torch.randn(3, 4), torch.randn(3, 4)
        rms_norm_(z, w)
        fused(z, torch.randn(3, 4), w)
        out_form(z, w, out=y)
    normal = torch.randn(3, 4)
    for f, args in ((rms_norm_, (x, w)), (fused, (x, normal, w)),
                    (fused, (normal, x, w)),
                    (lambda a, w, o: out_form(a, w, out=o), (normal, w, x))):
        with pytest.raises(RuntimeError, match="Inplace update to inference "):
            x.add_(1)
        refuses(f, *args, match="Inplace update to inference tensor outside "
                                "InferenceMode is not allowed")


def test_views_side_by_side_are_taken(ops: Any, road: Any) -> None:
    """Keys and values of one paged cache: ranges cross, no byte is shared."""
    b = base().view(4, 2, 8)[..., :4]
    x, residual, w = b[:, 0], b[:, 1], torch.ones(4)
    want = ops.fused_add_rms_norm(x.clone(), residual.clone(), w)
    road(lambda x, r, w: ops.fused_add_rms_norm(x, r, w))(x, residual, w)
    torch.testing.assert_close((x, residual), want)


def test_out_that_is_the_input_of_an_in_place_form_is_taken(
    ops: Any, road: Any
) -> None:
    x, w = base()[:12].view(4, 3).t(), base()[20:24]
    want = ops.rms_norm(x, w)
    road(lambda x, w, y: ops.rms_norm(x, w, out=y))(x, w, x)
    torch.testing.assert_close(x, want)


POINTWISE = """
#include <opgraft/op.h>
static const og_op ops[] = {{
    .schema = "twice(Tensor x, Tensor y) -> Tensor",
    .row = "x + 2 * y", .inplace = "x", .backward = "none"}};
OG_MODULE(written_twice, ops)
"""


def test_a_formula_in_place_takes_one_tensor_twice(
    write_module: Any, road: Any
) -> None:
    """As x.add_(x) does; views that overlap in part are refused."""
    import opgraft

    m = opgraft.load(write_module(POINTWISE))
    x = torch.arange(4.0)
    f = road(lambda x: m.twice_(x, x))
    f(x)
    assert torch.equal(x, torch.arange(4.0) * 3)
    refuses(road(lambda x: m.twice_(x[:3], x[1:])), x,
            match="x is written and overlaps y")


# --- Any two views of one storage, over every operator ----------------------------


@dataclass
class Draw:
    """A call of which two tensors, `written` and `other`, lie in one storage."""

    refused: bool | None  # None: a formula may read the argument later
    values: list[Any]
    outs: list[torch.Tensor]


def place(like: torch.Tensor, memory: torch.Tensor, rng: random.Random,
          may_repeat: bool) -> torch.Tensor | None:
    """A view of this type and shape somewhere in the storage; None where the
    layout that was drawn is too long."""
    item = like.element_size()
    strides, dense = [0] * like.dim(), 1
    for d in rng.sample(range(like.dim()), like.dim()) if rng.random() < 0.3 \
            else reversed(range(like.dim())):
        strides[d] = dense * rng.choice((1, 1, 1, 2))
        dense = strides[d] * max(like.shape[d], 1)
    if may_repeat and like.dim() and rng.random() < 0.2:
        strides[rng.randrange(like.dim())] = rng.randrange(2)
    reach = 1 + sum((n - 1) * s for n, s in zip(like.shape, strides))
    left = memory.numel() // item - reach
    if left < 0 or like.numel() == 0:
        return None
    # An attention plan, of bytes, begins at a multiple of 8.
    step = 8 if like.dtype == torch.uint8 else 1
    return memory.view(like.dtype).as_strided(
        like.shape, strides, rng.randint(0, left) // step * step)


def byte_counts(view: torch.Tensor, memory: torch.Tensor) -> torch.Tensor:
    """How many elements lie on each byte of the storage."""
    item = view.element_size()
    every = torch.arange(memory.numel()).as_strided(
        (*view.shape, item), (*(s * item for s in view.stride()), 1),
        view.storage_offset() * item)
    return torch.bincount(every.reshape(-1), minlength=memory.numel())


def is_same(a: torch.Tensor, b: torch.Tensor) -> bool:
    return (a.data_ptr() == b.data_ptr() and a.shape == b.shape
            and a.element_size() == b.element_size()
            and all(n == 1 or s == t for n, s, t in
                    zip(a.shape, a.stride(), b.stride())))


Slot = tuple[str, int, int]  # "in" or "out", parameter or result, list entry


def slots_of(values: list[Any], outs: list[torch.Tensor]) -> Iterator[Slot]:
    for p, value in enumerate(values):
        if isinstance(value, torch.Tensor):
            yield "in", p, -1
        elif isinstance(value, list):
            yield from (("in", p, i) for i, v in enumerate(value)
                        if isinstance(v, torch.Tensor))
    yield from (("out", i, -1) for i in range(len(outs)))


def at(slot: Slot, values: list[Any], outs: list[torch.Tensor],
       new: torch.Tensor | None = None) -> torch.Tensor:
    kind, i, entry = slot
    holder: Any = outs if kind == "out" else values
    if entry >= 0:
        holder, i = holder[i], entry
    if new is not None:
        holder[i] = new
    return holder[i]


def draw(d: Description, given: list[Any], fresh: list[torch.Tensor],
         rng: random.Random) -> Draw | None:
    values = [list(v) if isinstance(v, (list, tuple)) else v for v in given]
    outs = [torch.empty_like(t) for t in fresh]
    slots = list(slots_of(values, outs))
    written = [s for s in slots if s[0] == "out" or s[1] in d.mutated]
    if not written:
        return None
    first = rng.choice(written)
    others = [s for s in slots if s != first]
    a = at(first, values, outs)
    second = rng.choice(others) if others else None
    b = at(second, values, outs) if second else None
    size = a.numel() * a.element_size() + (
        b.numel() * b.element_size() if b is not None else 0)
    memory = torch.zeros(64 + size * ROOM // 64 * 64, dtype=torch.uint8)
    new_a = place(a, memory, rng, True)
    if new_a is None:
        return None
    refused: bool | None = bool(byte_counts(new_a, memory).max() > 1)
    is_open = False
    new_b = None
    if b is not None and second is not None:
        is_like = a.shape == b.shape and a.dtype == b.dtype
        new_b = (new_a.detach() if is_like and rng.random() < 0.4 else
                 place(b, memory, rng, False))
        if new_b is None:
            return None
        shares = bool((byte_counts(new_a, memory).bool()
                       & byte_counts(new_b, memory).bool()).any())
        may = (first[0] == "out" and second[0] == "in"
               and is_same(new_a, new_b)
               and (d.tables["is_formula_derived"]
                    or (first[1] == 0 and second[1] == d.tables["inplace"])))
        is_open = (shares and may and d.tables["is_formula_derived"]
                   and len(outs) > 1)
        refused |= shares and not may
        if second[0] == "out" or second[1] in d.mutated:
            refused |= bool(byte_counts(new_b, memory).max() > 1)
    if refused is False and is_open:
        refused = None
    if not refused:
        if first[0] == "in":
            new_a.copy_(a)
        if new_b is not None and b is not None:
            new_b.copy_(b)
    at(first, values, outs, new_a)
    if new_b is not None and second is not None:
        at(second, values, outs, new_b)
    return Draw(refused, values, outs)


def first_call(m: Any, d: Description, group: Iterator[Any]) -> Any:
    """(values, fresh results) of the first draw that the kernel takes."""
    for _, values in group:
        try:
            own = check_torch._copy(values)
            made = _invoke(d, getattr(m, function_name(d)), own)
        except RuntimeError:
            continue
        if d.mutated or any(r["list"] for r in d.fresh):
            return values, []
        return values, check_torch._flat(made)
    return None


def function_name(d: Description) -> str:
    return f"{d.base_name}_{d.overload}" if d.overload else d.base_name


def has_out(m: Any, d: Description) -> bool:
    packet = getattr(getattr(torch.ops, m.namespace), d.base_name)
    return hasattr(packet, "out") and not d.overload


def run(m: Any, d: Description, case: Draw, slow: bool) -> list[torch.Tensor]:
    space = getattr(torch.ops, m.namespace)
    if case.outs and slow:
        from opgraft._load.signatures import out_names

        names = out_names(d)
        f = getattr(space, d.base_name).out
        _invoke(d, lambda *a, **k: f(*a, **k, **dict(zip(names, case.outs))),
                case.values)
    elif case.outs:
        given = case.outs[0] if len(case.outs) == 1 else tuple(case.outs)
        _invoke(d, lambda *a, **k: getattr(m, function_name(d))(
            *a, **k, out=given), case.values)
    elif slow:
        _invoke(d, getattr(getattr(space, d.base_name),
                           d.overload or "default"), case.values)
    else:
        _invoke(d, getattr(m, function_name(d)), case.values)
    return case.outs + [t for p in d.mutated
                        for t in check_torch._flat(case.values[p])]


def disjoint(case: Draw) -> Draw:
    return Draw(False, check_torch._copy(case.values),
                [t.clone() for t in case.outs])


def try_operator(m: Any, d: Description, seen: Counter[str],
                 rng: random.Random) -> None:
    for group in list(check_torch.calls(m, d, 5))[:4]:
        call = first_call(m, d, group)
        if call is None or (not d.mutated and not has_out(m, d)):
            continue
        for number in range(16):
            case = draw(d, *call, rng)
            if case is None:
                continue
            if case.refused:
                with pytest.raises(RuntimeError, match="is written"):
                    run(m, d, case, bool(number % 2))
                seen["refused"] += 1
                continue
            want = run(m, d, disjoint(case), bool(number % 2))
            try:
                found = run(m, d, case, bool(number % 2))
            except RuntimeError as error:
                assert case.refused is None and "is written" in str(error)
                continue
            torch.testing.assert_close(found, want, equal_nan=True,
                                       rtol=0, atol=0)
            seen["equal"] += 1


def check_module(m: Any) -> Counter[str]:
    total: Counter[str] = Counter()
    for d in m._descriptions.values():
        if {"random", "side_effect"} & set(d.tables["flags"]):
            continue
        seen: Counter[str] = Counter()
        try_operator(m, d, seen, random.Random(d.name))
        total += seen
    return total


FILES = ("custom_op_db", "index", "linear", "pointwise", "reduce", "shape",
         "write")


@pytest.mark.parametrize("name", FILES)
def test_views_of_one_storage_are_refused_or_equal_disjoint_memory(
    build: Any, name: str
) -> None:
    import opgraft

    seen = check_module(opgraft.load(build(f"tests/ops/{name}.c")))
    assert seen["refused"] > 5 and seen["equal"] > 5, seen


def test_views_of_one_storage_over_the_operator_library(ops: Any) -> None:
    seen: Counter[str] = Counter()
    for m in ops._modules.values():
        seen += check_module(m)
    assert seen["refused"] > 100 and seen["equal"] > 100, seen
