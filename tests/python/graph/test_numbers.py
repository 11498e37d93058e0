# SPDX-License-Identifier: Apache-2.0
"""Numbers and tensors without dims that the other operands' type cannot hold,
in every row of aten.def that takes numbers, beside eager mode, bit for bit.

A round draws calls of a type and a way of compiling from a seed."""

from __future__ import annotations

import collections
import contextlib
import functools
import itertools
import math
import random
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable

import pytest
import torch
import torch._inductor.inductor_prims  # noqa: F401  # registers prims.fma
from torch._subclasses.fake_tensor import FakeTensorMode

import opgraft  # noqa: F401

T = torch.Tensor
SOURCE = Path(__file__).resolve().parents[3] / "src"
TABLE = (SOURCE / "import/aten.def").read_text()
NUMBERED = dict(re.findall(
    r'^OG_ATEN_NUM\("([^"]+)", \w+, (\w+), \w+,\s*"[^"]*"\)', TABLE, re.M))
OTHERS = dict(re.findall(
    r'^OG_ATEN\("([^"]+)", \w+, (\w+),\s*"[^"]*"\)', TABLE, re.M))
TYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16,
         torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8,
         torch.bool]
WAYS: dict[str, dict[str, Any]] = {
    "default": {}, "reduce-overhead": {"mode": "reduce-overhead"},
    "max-autotune": {"mode": "max-autotune"},
    "dynamic": {"dynamic": True},
    "dynamic-autotune": {"mode": "max-autotune", "dynamic": True}}
SIZES = (8, 9000)
HOST_FROM = 4096  # elements: ATen may run one form of a call, and we the other

# Rows with numbers of which nothing has to be said, and why.
UNSAID = {
    "square.default": "its operands are one tensor",
    "masked_fill.Tensor": "its handler leaves what may not fit to the host",
    "prims.fma.default": "its operands have one type",
    **dict.fromkeys(
        ("addmm.default", "baddbmm.default", "index_add.default",
         "_foreach_norm.Scalar", "linalg_vector_norm.default",
         "histc.default", "arange.default", "arange.start",
         "arange.start_step", "var.correction", "var_mean.correction"),
        "its numbers are attributes, which keep their digits"),
}

# Rows whose value is a tensor without dims.
ONE_VALUE = {"masked_fill.Tensor", "index_fill.int_Tensor"}

# Rows whose tensors have no NaN: of one, ATen's vectors give 0, and the last
# elements the gradient.
NO_NAN = {"hardtanh_backward.default"}

# Numbers: fractions, beyond each type, none, negative for unsigned types.
FLOATS = (0.1, -0.3, 0.7, 2.3, 20.03, 1e5, 1e39, math.nan, math.inf, -math.inf)
INTS = (3, -1, -5, 257, 300, 2049, 70001, -300, 2**31, 2**40 + 1)
NUMBERS: tuple[Any, ...] = (*FLOATS, *INTS, True)
WITHOUT_DIMS = [torch.tensor(s, dtype=dtype) for dtype, some in (
    (torch.float32, (0.1, -0.3, 2.3, 1e5, math.nan, math.inf)),
    (torch.float64, (0.1, 2.3, 1e39, -math.inf)),
    (torch.int64, INTS), (torch.bfloat16, (0.1, 20.03)),
    (torch.float16, (0.1, 257)), (torch.uint8, (200,)), (torch.int8, (-100,)),
    (torch.int32, (30001,)), (torch.bool, (True,))) for s in some]


# --- Calls --------------------------------------------------------------------


def operator(row: str) -> Any:
    space = torch.ops.prims if row.startswith("prims.") else torch.ops.aten
    packet, overload = row.removeprefix("prims.").split(".")
    return getattr(getattr(space, packet), overload)


def kind(argument: Any) -> str:
    return str(argument.real_type).removeprefix("Optional[").rstrip("]")


def places(row: str) -> list[int]:
    """Arguments that may be a number or a tensor without dims."""
    masks = {"where": "condition", "masked_fill": "mask",
             "native_dropout_backward": "mask"}
    mask = masks.get(row.split(".")[0])
    return [i for i, a in enumerate(operator(row)._schema.arguments)
            if a.name not in (mask, "index")
            and kind(a) in ("Tensor", "number", "List[number", "float")]


DRAWN = [row for row in sorted(NUMBERED) if places(row)]


@dataclass(frozen=True)
class Call:
    """`value` stands at `place`; the other arguments are tensors of n elements
    and plain numbers. `spread`: the value as a tensor of n elements."""

    row: str
    place: int
    value: Any
    dtype: torch.dtype
    n: int
    seed: int

    def arguments(self) -> tuple[list[Any], dict[str, Any]]:
        given, named = [], {}
        for i, a in enumerate(operator(self.row)._schema.arguments):
            x = self.value if i == self.place else self.usual(a, i)
            if i == self.place and kind(a) == "List[number":
                x = [x, x]
            if a.kwarg_only:
                named[a.name] = x
            else:
                given.append(x)
        return given, named

    def usual(self, a: Any, i: int) -> Any:
        if a.name in ("condition", "mask"):
            return elements(torch.bool, self.n, self.seed)
        if a.name == "index":
            return torch.arange(self.n // 2)
        if self.row in ONE_VALUE and a.name == "value":
            return torch.ones((), dtype=self.dtype)
        fixed = {"dtype": self.dtype, "rounding_mode": "floor", "dim": 0,
                 "size": [self.n], "pad": [1, 2]}
        if a.name in fixed:
            return fixed[a.name]
        if kind(a) == "Tensor":
            x = elements(self.dtype, self.n, self.seed + i)
            return x.nan_to_num() if self.row in NO_NAN else x
        if kind(a) == "List[Tensor":
            return [elements(self.dtype, self.n, self.seed + i + k)
                    for k in (0, 7)]
        if kind(a) == "List[number":
            return [2, 3]
        if a.has_default_value():
            return a.default_value
        return {"number": 2, "float": 2.0, "bool": False}[kind(a)]

    def run(self) -> Any:
        args, kwargs = self.arguments()
        return operator(self.row)(*args, **kwargs)

    def run_apart(self) -> Any:
        """As eager's kernels run it for single elements: no two of a tensor
        are neighbours."""
        args, kwargs = torch.utils._pytree.tree_map_only(
            T, lambda x: torch.stack((x, x), -1)[..., 0] if x.dim() else x,
            self.arguments())
        return operator(self.row)(*args, **kwargs)

    def run_wide(self) -> Any:
        """As they run it for vectors: of a few elements, many times over."""
        args, kwargs = torch.utils._pytree.tree_map_only(
            T, lambda x: x.repeat(64) if x.dim() else x, self.arguments())
        return torch.utils._pytree.tree_map(
            lambda y: y[:self.n], operator(self.row)(*args, **kwargs))

    def __str__(self) -> str:
        value = self.value
        if isinstance(value, T):
            value = f"tensor({value.item()}, {value.dtype})"
        return (f"{self.row} of {self.n} {self.dtype}, argument {self.place} "
                f"= {value}, seed {self.seed}")


@functools.cache
def elements(dtype: torch.dtype, n: int, seed: int) -> T:
    """Random ones, and what the numbers become in the type, with neighbours."""
    rng = torch.Generator().manual_seed(seed)
    if dtype is torch.bool:
        return torch.rand(n, generator=rng) > 0.5
    if dtype.is_floating_point:
        x = (3 * torch.randn(n, generator=rng, dtype=torch.float64)).to(dtype)
        near = torch.tensor([*FLOATS, *INTS], dtype=torch.float64).to(dtype)
        ends = torch.tensor([math.inf, -math.inf], dtype=dtype)
        special = torch.cat([
            near, -near, *(torch.nextafter(near, e) for e in ends),
            torch.tensor([0.0, -0.0, torch.finfo(dtype).tiny], dtype=dtype)])
    else:
        info = torch.iinfo(dtype)
        x = torch.randint(max(info.min, -2**62), min(info.max, 2**62), (n,),
                          generator=rng).to(dtype)
        special = torch.tensor([info.min, info.max, 1, 2, 7, *INTS]).to(dtype)
    special = special[torch.randperm(len(special), generator=rng)][:n - 2]
    x[:len(special)] = special
    return x[torch.randperm(n, generator=rng)]


# --- What differs, and why ----------------------------------------------------


@dataclass(frozen=True)
class Apart:
    """Operators of the IR whose bits beside eager are not promised, and calls
    of them that differ: where none does any more, the entry has to go."""

    operators: frozenset[str]
    reason: str
    example: Callable[[T], Any]
    dtype: torch.dtype = torch.float32
    way: str = "reduce-overhead"


def apart(names: str, reason: str, example: Callable[[T], Any],
          **rest: Any) -> Apart:
    return Apart(frozenset(names.split()), reason, example, **rest)


APART = [
    apart("add sub add_scaled rsub_scaled lerp addcmul addcdiv",
          "ATen rounds a product before the sum or not, by where in the tensor "
          "an element stands", lambda x: torch.add(x, x.flip(0), alpha=0.7)),
    apart("floor_div", "ATen rounds the remainder, the difference and the "
          "quotient of a bf16 vector, and none of them at its end",
          lambda x: torch.floor_divide(
              torch.tensor(1e5), x.repeat(16).fill_(-8.0625)),
          dtype=torch.bfloat16, way="max-autotune"),
    apart("pow atan2 hypot elu softplus softplus_backward silu_backward "
          "gelu_backward sigmoid_backward tanh_backward leaky_relu_backward "
          "hardswish_backward hardsigmoid_backward",
          "functions have few wrong bits, others than ATen's",
          lambda x: x.abs() ** 0.7),
    apart("", "no rounding between fused members",
          lambda x: x * 0.7 + 0.1, dtype=torch.bfloat16, way="max-autotune"),
]
APPROXIMATE = frozenset().union(*(a.operators for a in APART))


@pytest.mark.parametrize("entry", APART, ids=lambda a: a.reason[:20])
def test_what_differs_does(entry: Apart) -> None:
    x = elements(entry.dtype, 8, 3)
    torch._dynamo.reset()
    c = torch.compile(entry.example, backend="opgraft", **WAYS[entry.way])
    assert not same_bits(c(x), entry.example(x)), entry.reason


def test_a_nan_has_two_gradients() -> None:
    grad, x = torch.ones(9001), torch.full((9001,), math.nan)
    for row in NO_NAN:
        assert len(operator(row)(grad, x, -1.0, 1.0).unique()) == 2


def spread(call: Call) -> Call | None:
    """The call with its value as a full tensor, where an overload takes it."""
    packet, overload = call.row.split(".")
    full = {"Scalar": "Tensor", "Tensor_Scalar": "Tensor_Tensor",
            "ScalarList": "List"}.get(overload, overload)
    if call.row == "pow.Scalar":
        full = "Tensor_Tensor"
    if packet.startswith("_foreach") and overload != "List":
        return None
    row = f"{packet}.{full}"
    if row not in NUMBERED or call.place not in places(row) or kind(
            operator(row)._schema.arguments[call.place]) != "Tensor":
        return None
    value = torch.as_tensor(call.value).to(call.run().dtype)
    twin = Call(row, call.place, value.expand(call.n).contiguous(), call.dtype,
                call.n, call.seed)
    with contextlib.suppress(RuntimeError):  # it may take no such types
        twin.run()
        return twin
    return None


# --- Compiled -----------------------------------------------------------------


def same_bits(a: Any, b: Any) -> bool:
    if not isinstance(a, T):
        return all(itertools.starmap(same_bits, zip(a, b)))
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if not a.dtype.is_floating_point:
        return torch.equal(a, b)
    bits = {2: torch.int16, 4: torch.int32, 8: torch.int64}[a.element_size()]
    equal = a.contiguous().view(bits) == b.contiguous().view(bits)
    return bool((equal | (a.isnan() & b.isnan())).all())


def is_either(a: Any, b: Any, c: Any) -> bool:
    """Each element has the bits of one of them."""
    if not isinstance(a, T):
        return all(itertools.starmap(is_either, zip(a, b, c)))
    return same_bits(torch.where((a == b) | (a.isnan() & b.isnan()), b, c), a)


def difference(a: Any, b: Any) -> str:
    """The first element that differs: ours, eager's."""
    if not isinstance(a, T):
        return "; ".join(itertools.starmap(difference, zip(a, b)))
    if a.dtype != b.dtype or a.shape != b.shape:
        return f"{a.dtype} {list(a.shape)}, eager {b.dtype} {list(b.shape)}"
    for k, (x, y) in enumerate(zip(a.flatten(), b.flatten())):
        if not same_bits(x, y):
            return f"[{k}] is {x.item()}, in eager {y.item()}"
    return "the same"


def close(a: Any, b: Any) -> bool:
    """Of f32 too: the last elements of ATen's pow(f32, number) have the number
    in f64, which is 1.3e-6 of the result for 7 ** 20.03. A product of a few
    units that is rounded before a sum may be a few roundings of 1 away."""
    first = a if isinstance(a, T) else a[0]
    most = {}
    if first.dtype is torch.float32:
        most = {"rtol": 1e-5, "atol": 1e-5}
    elif first.dtype in (torch.float16, torch.bfloat16):
        eps = torch.finfo(first.dtype).eps
        most = {"rtol": 2 * eps, "atol": 8 * eps}
    try:
        torch.testing.assert_close(a, b, equal_nan=True, **most)
    except AssertionError:
        return False
    return True


def run_compiled(calls: list[Call], way: str) -> list[Any]:
    """In one graph: tensors are inputs, numbers stand in it."""
    leaves: list[list[T]] = []
    shapes = []
    for call in calls:
        flat, spec = torch.utils._pytree.tree_flatten(call.arguments())
        leaves.append([x for x in flat if isinstance(x, T)])
        shapes.append((operator(call.row), flat, spec))

    def f(given: list[list[T]]) -> list[Any]:
        results = []
        for (op, flat, spec), tensors in zip(shapes, given):
            rest = iter(tensors)
            args, kwargs = torch.utils._pytree.tree_unflatten(
                [next(rest) if isinstance(x, T) else x for x in flat], spec)
            results.append(op(*args, **kwargs))
        return results

    torch._dynamo.reset()
    compiled = torch.compile(f, backend="opgraft", fullgraph=True, **WAYS[way])
    return list(compiled(leaves))


def has_shape_function(call: Call) -> bool:
    """torch's shape functions refuse a NaN for integers, which eager takes."""
    args, kwargs = call.arguments()
    with FakeTensorMode() as mode, contextlib.suppress(ValueError):
        one = functools.partial(torch.utils._pytree.tree_map_only, T,
                                mode.from_tensor)
        operator(call.row)(*one(args), **one(kwargs))
        return True
    return False


REFUSED = re.compile("without overflow|outside the representable")


@dataclass
class Round:
    """What was drawn and found."""

    calls: list[Call]
    way: str
    counts: collections.Counter[str]
    faults: list[str]

    def run(self) -> Round:
        wanted, refused = {}, []
        for call in self.calls:
            try:
                wanted[call] = call.run()
            except Exception as error:
                refused += [call] if REFUSED.search(str(error)) else []
                self.counts["not an operator of the type"] += 1
                continue
            if not has_shape_function(call):
                del wanted[call]
                self.counts["torch's own compiler refuses it"] += 1
        twins = {c: t for c in wanted if NUMBERED[c.row] in APPROXIMATE
                 and (t := spread(c)) is not None}
        order = [*wanted, *twins.values()]
        if order:
            got = dict(zip(order, run_compiled(order, self.way)))
            for call, right in wanted.items():
                self.compare(call, got[call], right,
                             got.get(twins.get(call, call)))
        if refused:
            self.refuse(refused[0])
        return self

    def compare(self, call: Call, got: Any, right: Any, twin: Any) -> None:
        how = ("eager's bits" if same_bits(got, right)
               or is_either(got, right, call.run_apart())
               or is_either(got, right, call.run_wide()) else
               "our own bits" if twin is not got and same_bits(got, twin) else
               "close" if NUMBERED[call.row] in APPROXIMATE
               and (twin is got or call.n > HOST_FROM)
               and close(got, right) else "wrong")
        self.counts[how] += 1
        if how == "wrong":
            self.faults.append(f"{self.way}, {call}: "
                               f"{difference(got, right)}")

    def refuse(self, call: Call) -> None:
        self.counts["refused"] += 1
        try:
            found = run_compiled([call], self.way)
        except Exception:
            return
        self.faults.append(f"{self.way}, {call}: {found}, eager refuses it")


def draw(way: str, dtype: torch.dtype, count: int, seed: int) -> Round:
    rng = random.Random(f"{way} {dtype} {seed}")
    calls = []
    for row in rng.sample(DRAWN, count):
        place = rng.choice(places(row))
        argument = operator(row)._schema.arguments[place]
        calls.append(Call(
            row, place,
            rng.choice(WITHOUT_DIMS if kind(argument) == "Tensor" else
                       FLOATS if kind(argument) == "float" else NUMBERS),
            dtype, rng.choice(SIZES), rng.randrange(3)))
    return Round(calls, way, collections.Counter(), [])


@pytest.mark.parametrize("dtype", TYPES, ids=lambda t: str(t)[6:])
@pytest.mark.parametrize("way", WAYS)
def test_numbers_have_the_type_that_eager_gives(
    way: str, dtype: torch.dtype
) -> None:
    found = draw(way, dtype, 9, 0).run()
    assert found.faults == []
    assert found.counts["eager's bits"] > 0


@pytest.mark.parametrize(("row", "dtype", "place", "value"), [
    ("fill.Scalar", torch.uint8, 1, 257),
    ("pow.Tensor_Scalar", torch.float16, 1, 2**31),
    ("_foreach_minimum.Scalar", torch.float16, 1, 2**40),
    ("where.ScalarOther", torch.int32, 2, 2**40 + 1),
], ids=lambda x: str(x))
def test_a_symbol_that_does_not_fit(
    row: str, dtype: torch.dtype, place: int, value: int
) -> None:
    call = Call(row, place, value, dtype, 8, 0)
    for run in (call.run, lambda: run_compiled([call], "dynamic")):
        with pytest.raises(RuntimeError, match=REFUSED):
            run()


@pytest.mark.parametrize("value", [False, True])
def test_bools_to_the_power_of_a_bool(value: bool) -> None:
    """Are bools, of which torch's shape function makes integers."""
    calls = [Call(row, 1, value, torch.bool, 8, 0) for row in (
        "pow.Tensor_Scalar", "_foreach_pow.Scalar", "_foreach_pow.ScalarList")]
    found = Round(calls, "reduce-overhead", collections.Counter(), []).run()
    assert found.faults == []
    assert found.counts == {"eager's bits": len(calls)}


# --- Tables and functions beside the rows -------------------------------------


def test_every_row_that_takes_numbers_says_what_becomes_of_them() -> None:
    """A row of a pointwise operator that is given numbers, or several
    tensors; any other that is given numbers."""
    text = (SOURCE / "graph/ops.def").read_text()
    pointwise = set(re.findall(r"^OG_PW\((\w+),", text, re.M))
    missing = [
        row for row, op in OTHERS.items()
        if row not in UNSAID and (
            op in pointwise and op != "copy" and len(places(row)) > 1
            or any(kind(a) == "number"
                   for a in operator(row)._schema.arguments))]
    assert missing == []
    assert set(UNSAID) <= set(OTHERS)


@pytest.mark.full
def test_many(rounds: Any) -> None:
    ways = list(itertools.product(WAYS, TYPES))

    def check(seed: int) -> collections.Counter[str]:
        found = draw(*ways[seed % len(ways)], 30, seed).run()
        assert not found.faults, "\n".join(found.faults)
        return found.counts

    rounds(check, 400)
