# SPDX-License-Identifier: Apache-2.0
"""AOTAutograd's conventions at run time: what a compiled function does to what
it is given and what it gives, beside eager."""

from __future__ import annotations

import contextlib
import itertools
import random
from typing import Any, Callable

import numpy as np
import pytest
import torch
from torch.autograd import forward_ad
from torch.testing._internal.two_tensor import TwoTensor
from torch.utils._python_dispatch import return_and_correct_aliasing
from torch.utils._pytree import tree_map

import opgraft

T = torch.Tensor
MODES: dict[str, Any] = {
    "default": {}, "max-autotune": {"mode": "max-autotune"},
    "dynamic": {"dynamic": True}}


def compiled(f: Any, backend: str = "opgraft", **options: Any) -> Any:
    torch._dynamo.reset()
    return torch.compile(f, backend=backend, fullgraph=True, **options)


def fields(value: Any) -> Any:
    """What to compare: a subclass as its type and what it is made of."""
    if isinstance(value, T) and value.is_nested:
        return [value.requires_grad, fields(value.values()),
                fields(value.offsets())]
    if hasattr(value, "__tensor_flatten__"):
        names, _ = value.__tensor_flatten__()
        return [type(value).__name__, value.requires_grad,
                *(fields(getattr(value, n)) for n in names)]
    if isinstance(value, T):
        return [type(value).__name__, value.requires_grad, value.is_leaf,
                value.detach()]
    if isinstance(value, (list, tuple)):
        return [fields(v) for v in value]
    return value


def equal(found: Any, wanted: Any) -> None:
    if isinstance(wanted, T):
        torch.testing.assert_close(found, wanted)
    elif isinstance(wanted, list):
        assert len(found) == len(wanted)
        for a, b in zip(found, wanted):
            equal(a, b)
    else:
        assert found == wanted


# --- Inputs that are written --------------------------------------------------
#
# A program is a list of steps for forward and one for backward, over buffers b,
# the input x or the gradient g (both v here), and what was kept.

BUFFERS = 2
STEPS: dict[str, Callable[..., Any]] = {
    "add": lambda s, i, v: s.b[i].add_(v.detach()),
    "scale": lambda s, i, v: s.b[i].mul_(0.5),
    "count": lambda s, i, v: s.b[i].add_(1),
    "copy": lambda s, i, v: s.b[i].copy_(v.detach() + 1),
    "part": lambda s, i, v: s.b[i][1:].add_(2),
    "turned": lambda s, i, v: s.b[i].t().mul_(s.b[1 - i]),
    "read": lambda s, i, v: s.out.append(s.b[i] * 3),
    "read part": lambda s, i, v: s.out.append(s.b[i][:1] + 1),
    "keep": lambda s, i, v: s.kept.append(s.b[i] * 2),
    "keep a view": lambda s, i, v: s.kept.append(s.b[i][0].cos()),
    "recall": lambda s, i, v: s.out.extend(s.kept),
}


class Steps:
    def __init__(self, b: list[T], kept: list[T]) -> None:
        self.b, self.kept, self.out = b, kept, []

    def run(self, steps: list[tuple[str, int]], v: T) -> T:
        for name, i in steps:
            STEPS[name](self, i, v)
        return v * sum((o.detach().sum() for o in self.out), 1.0)


def program(forward: list[tuple[str, int]], backward: list[tuple[str, int]]
            ) -> Callable[..., T]:
    class Program(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: T, *b: T) -> T:
            s = Steps(list(b), [])
            y = s.run(forward, x)
            ctx.b, ctx.count = b, len(s.kept)
            ctx.save_for_backward(*s.kept)
            return y

        @staticmethod
        def backward(ctx: Any, g: T) -> Any:
            s = Steps(list(ctx.b), list(ctx.saved_tensors))
            return s.run(backward, g), *[None] * BUFFERS

    return Program.apply


WRITES = {
    "by forward": ([("count", 0)], [("read", 1)]),
    "by backward": ([("read", 0)], [("count", 0)]),
    "by both": ([("count", 0)], [("count", 0), ("count", 0)]),
    "by both, kept": ([("keep", 0), ("add", 0)],
                      [("recall", 0), ("scale", 0)]),
    "by both, kept as a view": ([("keep a view", 0), ("part", 0)],
                                [("recall", 0), ("turned", 0)]),
    "both by both": ([("keep", 0), ("keep", 1), ("count", 0), ("turned", 1)],
                     [("recall", 0), ("copy", 1), ("add", 0)]),
}


def drawn(seed: int) -> tuple[list[tuple[str, int]], list[tuple[str, int]]]:
    draw = random.Random(seed)
    names = list(STEPS)

    def steps() -> list[tuple[str, int]]:
        return [(draw.choice(names), draw.randrange(BUFFERS))
                for _ in range(draw.randint(1, 5))]

    return steps(), steps()


def trained(f: Callable[..., T]) -> list[Any]:
    """The buffers and gradients of two steps."""
    torch.manual_seed(3)
    buffers = [torch.randn(3, 3) for _ in range(BUFFERS)]
    found: list[Any] = []
    for _ in range(2):
        x = torch.randn(3, 3, requires_grad=True)
        y = f(x, *buffers)
        y.sum().backward()
        found += [y.detach(), x.grad, *(b.clone() for b in buffers)]
    return found


def writes_hold(forward: Any, backward: Any, mode: str) -> None:
    f = program(forward, backward)
    equal(trained(compiled(f, **MODES[mode])), trained(f))


@pytest.mark.parametrize("name", WRITES)
def test_inputs_that_are_written(name: str) -> None:
    modes = list(MODES)
    writes_hold(*WRITES[name], modes[list(WRITES).index(name) % len(modes)])


@pytest.mark.parametrize("seed", range(6))
def test_drawn_writes(seed: int) -> None:
    writes_hold(*drawn(seed), list(MODES)[seed % len(MODES)])


@pytest.mark.full
def test_many_drawn_writes(rounds: Any) -> None:
    def check(seed: int) -> int:
        writes_hold(*drawn(seed), list(MODES)[seed % len(MODES)])
        return 1

    rounds(check, 600)


# --- Inputs that share memory -------------------------------------------------


def placed(seed: int) -> int:
    """Views of one tensor, some written, at other places in each call: as in
    eager, or refused with nothing written."""
    draw = random.Random(seed)
    count, length = draw.randint(2, 3), draw.randint(2, 4)
    written = [draw.random() < 0.6 for _ in range(count)]

    def f(*views: T) -> tuple[T, T]:
        for i, v in enumerate(views):
            if written[i]:
                v.mul_(i + 2).add_(views[i - 1].sum())
        return torch.stack(views).sum(0), views[0].cumsum(0)

    c = compiled(f, dynamic=draw.random() < 0.3,
                 options={"mode": draw.choice(["default", "max-autotune"])})
    taken = 0

    def views(x: T, places: list[tuple[int, bool]]) -> list[T]:
        return [(x.clone() if is_apart else x)[begin:begin + length]
                for begin, is_apart in places]

    for _ in range(4):
        places = [(draw.randint(0, 4), draw.random() < 0.2)
                  for _ in range(count)]
        before = torch.randn(8, dtype=torch.float64)
        x, y = before.clone(), before.clone()
        wanted = f(*views(x, places))
        try:
            equal(list(c(*views(y, places))), list(wanted))
        except RuntimeError as error:
            assert "clone()" in str(error)
            equal(y, before)
        else:
            equal(y, x)
            taken += 1
    return taken


@pytest.mark.parametrize("seed", range(4))
def test_inputs_that_share_memory(seed: int) -> None:
    assert placed(seed) > 0  # what it was compiled for


@pytest.mark.full
def test_many_inputs_that_share_memory(rounds: Any) -> None:
    rounds(placed, 100)


# --- Results that share memory -------------------------------------------------
#
# Written afterwards, they have eager's values and gradients, or raise where
# eager or aot_eager raises.

VIEWS: dict[str, Callable[[T], Any]] = {
    "unbind": lambda y: y.unbind(0),
    "split": lambda y: y.split(1),
    "parts": lambda y: (y[0], y[1]),
    "base, part": lambda y: (y, y[0]),
    "part, base": lambda y: (y.diagonal(), y),
}
# Of an intermediate alone.
FEWER: dict[str, Callable[[T], Any]] = {
    "twice": lambda y: (y, y.view(-1), y),
    "view, base, detached": lambda y: (y.view(-1), y, y[0].detach()),
    "detached, base, detached": lambda y: (y.t().detach(), y, y.detach()),
    "detached, part": lambda y: (y[1:].detach(), y[0])}
SOURCES: dict[str, Callable[[T], T]] = {
    "input": lambda x: x, "intermediate": lambda x: x * 2,
    "detached": lambda x: (x * 2).detach()}
GIVEN: dict[str, Callable[[T], T]] = {
    "non-leaf": lambda x: x * 1, "plain": lambda x: x.detach()}
LATER: dict[str, Callable[..., Any]] = {
    "first": lambda ys, w: ys[0].mul_(w),
    "last": lambda ys, w: ys[-1].mul_(w),
    "without grad": torch.no_grad()(lambda ys, w: ys[0].mul_(3))}


def written_later(f: Any, given: str, later: str, mode: Any) -> Any:
    x = torch.arange(6.).view(2, 3).requires_grad_()
    w = torch.tensor(5., requires_grad=True)
    try:
        with mode():
            ys = f(GIVEN[given](x))
        LATER[later](ys, w)
        total = sum((y * (i + 1)).sum() for i, y in enumerate(ys))
        grads = torch.autograd.grad(
            total, [x, w], allow_unused=True) if total.requires_grad else []
        return [fields(list(ys)), list(grads)]
    except RuntimeError as error:
        return str(error)


@pytest.mark.parametrize("name, source", [
    *itertools.product(VIEWS, SOURCES), *((n, "intermediate") for n in FEWER)])
def test_results_that_share_memory(name: str, source: str) -> None:
    def f(x: T) -> Any:
        return (VIEWS | FEWER)[name](SOURCES[source](x))

    g = compiled(f)
    aot = torch.compile(f, backend="aot_eager")
    for given in GIVEN:
        for later in LATER:
            for mode in (contextlib.nullcontext, torch.no_grad):
                wanted = written_later(f, given, later, mode)
                found = written_later(g, given, later, mode)
                if isinstance(found, str):
                    assert "is a view" in found or "A view was" in found, found
                    assert isinstance(wanted, str) or isinstance(
                        written_later(aot, given, later, mode), str), found
                elif isinstance(wanted, str):  # of one view each it raises not
                    assert "multiple views" in wanted, wanted
                else:
                    equal(found, wanted)


# --- Forward mode -------------------------------------------------------------


def test_tangents_are_kept_or_refused() -> None:
    def f(x: T) -> T:
        return x.sin() * 2

    def tangent(g: Any) -> Any:
        with forward_ad.dual_level():
            x = forward_ad.make_dual(torch.ones(3), torch.full((3,), 2.))
            return forward_ad.unpack_dual(g(x)).tangent

    g = compiled(f)
    try:
        torch.testing.assert_close(tangent(g), tangent(f))
    except torch._dynamo.exc.Unsupported as error:  # Dynamo's, from 2.15 on
        assert "forward-mode AD tangent" in str(error)
    g = compiled(f)
    g(torch.ones(3))
    with pytest.raises(RuntimeError, match="has a forward-mode tangent"):
        tangent(g)
    with forward_ad.dual_level():  # which no input uses
        torch.testing.assert_close(g(torch.ones(3)), f(torch.ones(3)))


# --- Subclasses ---------------------------------------------------------------


class One(T):
    """Made of one tensor."""

    def __new__(cls, a: T) -> Any:
        return T._make_wrapper_subclass(
            cls, a.size(), strides=a.stride(), dtype=a.dtype, device=a.device,
            storage_offset=a.storage_offset(), requires_grad=a.requires_grad)

    def __init__(self, a: T) -> None:
        self.a = a

    def __repr__(self) -> str:  # type: ignore[override]
        return f"One({self.a})"

    def __tensor_flatten__(self) -> Any:
        return ["a"], None

    @classmethod
    def __tensor_unflatten__(cls, inner: Any, context: Any, size: Any,
                             stride: Any) -> Any:
        return cls(inner["a"])

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (),
                           kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        inner, named = tree_map(
            lambda t: t.a if isinstance(t, One) else t, (args, kwargs))
        made = tree_map(lambda t: cls(t) if isinstance(t, T) else t,
                        func(*inner, **named))
        return return_and_correct_aliasing(func, args, kwargs, made)


class Named(T):
    """A tensor with another name."""


def jagged() -> T:
    return torch.nested.nested_tensor(
        [torch.ones(2, 4), torch.full((3, 4), 2.)], layout=torch.jagged)


def scaled(x: Any, w: Any = 2) -> Any:
    return (x * w).sin()


def r(*shape: int) -> T:
    return torch.linspace(-1, 1, 12)[:torch.Size(shape).numel()].view(shape)


SUBCLASSES: dict[str, tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]]]
SUBCLASSES = {
    "plain": (scaled, lambda: (r(3, 4),)),
    "one": (scaled, lambda: (One(r(3, 4)),)),
    "one beside a plain one": (scaled, lambda: (r(3, 4), One(r(4)))),
    "one as a weight": (lambda x, w: torch.mm(x, w),
                        lambda: (r(3, 4), torch.nn.Parameter(One(r(4, 2))))),
    "made inside": (lambda x: One(x * 2), lambda: (r(4),)),
    "taken apart": (lambda x: x.a * 2, lambda: (One(r(4)),)),
    "written": (lambda x: x.add_(1), lambda: (One(r(4)),)),
    "two": (scaled, lambda: (TwoTensor(r(4), r(4) + 1),)),
    "one of one": (scaled, lambda: (One(One(r(4))),)),
    "two of ones": (scaled, lambda: (TwoTensor(One(r(4)), One(r(4))),)),
    "by another name": (scaled, lambda: (r(4).as_subclass(Named),)),
    "jagged": (scaled, lambda: (jagged(),)),
    "jagged, its values": (lambda x: x.sin().values(), lambda: (jagged(),)),
    "jagged, linear": (torch.nn.functional.linear, lambda: (jagged(), r(3, 4))),
}


# Written leaves; what AOTAutograd does not differentiate.
NO_GRADIENT = ("written", "by another name", "taken apart", "made inside")


@pytest.mark.parametrize("name, grad", [
    (name, grad) for name in SUBCLASSES for grad in (False, True)
    if not grad or name not in NO_GRADIENT])
def test_subclasses(name: str, grad: bool) -> None:
    f, args = SUBCLASSES[name]

    def run(g: Any) -> Any:
        given = args()
        for x in given:
            x.requires_grad_(grad)
        made = g(*given)
        found = [fields(made), fields(given)]
        if isinstance(made, T) and made.requires_grad:
            parts = [made.values() if made.is_nested else made]
            parts[0].sum().backward()
            found += [fields(x.grad) for x in given]
        return found

    equal(run(compiled(f)), run(f))


def test_a_jagged_result_has_its_input_s_size() -> None:
    x = jagged()
    assert compiled(scaled)(x).shape == x.shape


# --- What goes by the wrapper ---------------------------------------------------


def test_marks_of_dynamic_sizes() -> None:
    """A compiled function behind takes them, and is not compiled twice."""
    first = compiled(lambda x: x * 2, dynamic=True)
    count = torch._dynamo.utils.counters["stats"]
    second = torch.compile(lambda x: x + 1, backend="opgraft")
    second(first(torch.ones(3)))
    before = count["unique_graphs"]
    torch.testing.assert_close(second(first(torch.ones(5))), torch.full((5,), 3.))
    assert count["unique_graphs"] == before


RANDOM: dict[str, Callable[[T], Any]] = {
    "uniform": lambda x: x * random.uniform(0, 1),
    "several": lambda x: x * random.uniform(1, 2) + random.randint(0, 9),
    "filled": lambda x: torch.full((2,), random.uniform(0, 1)) + x,
    "given": lambda x: (x + 1, random.uniform(0, 1)),
}


ARRAYS = [np.ones(3, code) for code in ("f2", "f4", "f8", "i4", "i8", "u1", "?",
                                        "c8")]
ARRAYS += [np.array(2.5, "f4"), np.float32(2.5), np.float16(2.5), np.float64(2.5),
           np.int32(3)]
FROM_NUMPY: dict[str, Callable[[Any], Any]] = {
    "arithmetic": lambda a: a * 2, "function": lambda a: np.sin(a) + 1,
    "as a tensor": lambda a: torch.as_tensor(a) * 2,
    "beside a tensor": lambda a: torch.ones(3) * a}


@pytest.mark.parametrize("dynamic", [None, True], ids=["", "dynamic"])
@pytest.mark.parametrize("name", FROM_NUMPY)
def test_what_numpy_made(name: str, dynamic: bool | None) -> None:
    """Arrays and NumPy's numbers have the type that they have."""
    def run(backend: str, given: Any) -> Any:
        torch._dynamo.reset()
        return torch.compile(FROM_NUMPY[name], backend=backend,
                             dynamic=dynamic)(given)

    for given in ARRAYS:
        wanted, found = run("aot_eager", given), run("opgraft", given)
        assert type(found) is type(wanted) and found.dtype == wanted.dtype
        np.testing.assert_allclose(np.asarray(found), np.asarray(wanted))


@pytest.mark.parametrize("name", RANDOM)
def test_python_s_random_numbers(name: str) -> None:
    f = RANDOM[name]
    g = compiled(f)
    for seed in range(3):
        x = torch.ones(2, dtype=torch.float64 if seed == 0 else torch.float32)
        random.seed(seed)
        wanted = f(x)
        random.seed(seed)
        equal(fields(g(x)), fields(wanted))


# --- Objects ------------------------------------------------------------------

opaque = pytest.importorskip("torch._library.opaque_object")
# By its name since torch 2.15.
Base: Any = getattr(opaque, "OpaqueBase", None) or opaque.CustomClassBase


class Label(Base):  # type: ignore[misc]
    def __init__(self, text: str) -> None:
        self.text = text

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, Label) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __fx_repr__(self) -> Any:
        return f"Label({self.text!r})", {"Label": Label}


class Counter(Base):  # type: ignore[misc]
    def __init__(self) -> None:
        self.count = 0


opaque.register_opaque_type(Label, typ="value", hoist=True)
opaque.register_opaque_type(Counter, typ="reference")
LIBRARY = torch.library.Library("test_conventions", "FRAGMENT")  # noqa: TOR901
FACTORS = {"a": 2.0, "b": 3.0}


def _counted(x: T, counter: Counter) -> T:
    counter.count += 1
    return x + counter.count


for name, schema, kernel, fake in (
        ("named", "(Tensor x, {label} name) -> Tensor",
         lambda x, name: x * FACTORS[name.text],
         lambda x, name: torch.empty_like(x)),
        ("fill", "(Tensor x, Tensor(a!) out, {label} name) -> ()",
         lambda x, out, name: (out.copy_(x * FACTORS[name.text]), None)[1],
         lambda x, out, name: None),
        ("counted", "(Tensor x, {counter} counter) -> Tensor", _counted,
         lambda x, counter: torch.empty_like(x))):
    LIBRARY.define(name + schema.format(
        label=opaque.get_opaque_type_name(Label),
        counter=opaque.get_opaque_type_name(Counter)))
    LIBRARY.impl(name, kernel, "CPU")
    torch.library.register_fake(f"test_conventions::{name}", fake, lib=LIBRARY)


def filled(x: T, name: Label) -> T:
    out = torch.empty_like(x)
    torch.ops.test_conventions.fill(x + 1, out, name)
    return out * 2


def twice_counted(x: T, counter: Counter) -> T:
    """One call is not the other."""
    op = torch.ops.test_conventions.counted
    return op(x, counter) + 10 * op(x, counter)


OBJECTS: dict[str, tuple[Callable[..., T], list[Any]]] = {
    "named": (lambda x, n: torch.ops.test_conventions.named(x + 1, n) * 2,
              [Label("a"), Label("b"), Label("a")]),
    "written": (filled, [Label("b"), Label("a")]),
    "changed": (twice_counted, [Counter(), Counter()]),
}


@pytest.mark.parametrize("name", OBJECTS)
def test_objects_go_to_the_nodes_that_take_them(name: str) -> None:
    f, objects = OBJECTS[name]

    def run(g: Any) -> list[Any]:
        for o in objects:
            o.__dict__.update({"count": 0} if name == "changed" else {})
        return [g(torch.ones(2), o) for o in objects for _ in range(2)]

    g = compiled(f)
    equal(run(g), run(f))
    for fallback in opgraft.stats(g).fallbacks:
        assert fallback["operator"].startswith("test_conventions.")


# --- Kept in a file -----------------------------------------------------------


@pytest.mark.parametrize("dynamic", [False, True], ids=["", "dynamic"])
@pytest.mark.parametrize("grad", [False, True], ids=["", "grad"])
def test_aot_compile(grad: bool, dynamic: bool, tmp_path: Any) -> None:
    """What torch writes to a file and loads is a plan again."""
    def f(x: T, w: T) -> T:
        return (x @ w).relu() + 1

    def run(g: Any, rows: int) -> list[Any]:
        x = torch.ones(rows, 4, requires_grad=grad)
        y = g(x, r(4, 2))
        return [y.detach(), *(torch.autograd.grad(y.sum(), x) if grad else ())]

    x = torch.ones(3, 4, requires_grad=grad)
    made = compiled(f, dynamic=dynamic).aot_compile(((x, r(4, 2)), {}))
    equal(run(made, 3), run(f, 3))
    made.save_compiled_function(str(tmp_path / "f"))
    loaded = torch.compiler.load_compiled_function(
        (tmp_path / "f").open("rb"))
    for rows in (3, 7) if dynamic else (3,):
        equal(run(loaded, rows), run(f, rows))
