# SPDX-License-Identifier: Apache-2.0
"""Rows that compare, at the borders of what they compare with and one unit in
the last place beside them, and functions of torch's that compare, with their
gradients: in every type, beside eager.

Eager may give either of what its own two forms give, that of vectors and that
of single elements: they differ about a NaN.
"""

from __future__ import annotations

import collections
import functools
import random
import re
from typing import Any, Callable

import pytest
import torch
from alone import ROOT, results_of
from recorded import Call, target_of
from torch.nn import functional as F

from opgraft._graph import backend, stats

COMPARES = re.compile(r"[<>]|[!=]=|select|min|max|is_inf|sign_bit")
IR = {m[1]: m[2] for m in re.finditer(
    r"^OG_PW\((\w+), .*?, (?:RESULT|OPERANDS), \w+, (.*)\)$",
    (ROOT / "src/graph/ops.def").read_text(), re.MULTILINE)}
ROWS = [m[1] for m in re.finditer(
    r'^OG_ATEN(?:_NUM)?\("([\w.]+)", \w+, (\w+),',
    (ROOT / "src/import/aten.def").read_text(), re.MULTILINE)
    if COMPARES.search(IR.get(m[2], ""))]
FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8,
            torch.bool)
MODES = ("default", "max-autotune")
# Each type has all of them but those that are below zero, or infinite.
NUMBERS = (0.0, 0.5, 1.0, 3.0, 6.0, 20.0, -0.5, -1.0, -3.0, -6.0, -20.0)
LENGTH = 512

# --- Values -------------------------------------------------------------------


@functools.cache
def pool(dtype: torch.dtype) -> torch.Tensor:
    """Numbers, their neighbours, and the ends of the type."""
    if dtype is torch.bool:
        return torch.tensor([False, True])
    if not dtype.is_floating_point:
        ends = torch.iinfo(dtype)
        near = {int(x) + d for x in NUMBERS for d in (-1, 0, 1)}
        near |= {ends.min, ends.min + 1, ends.max - 1, ends.max}
        return torch.tensor(sorted(
            x for x in near if ends.min <= x <= ends.max), dtype=dtype)
    at = torch.tensor([*NUMBERS, -0.0], dtype=dtype)
    up, down = (torch.nextafter(at, torch.tensor(to, dtype=dtype))
                for to in (float("inf"), float("-inf")))
    ends = torch.tensor([float("inf"), float("nan"), torch.finfo(dtype).max,
                         torch.finfo(dtype).tiny], dtype=dtype)
    return torch.cat((at, up, down, ends, -ends))


def drawn(dice: random.Random, dtype: torch.dtype) -> torch.Tensor:
    values = pool(dtype)
    g = torch.Generator().manual_seed(dice.getrandbits(32))
    return values[torch.randint(len(values), (LENGTH,), generator=g)]


def beside(dice: random.Random, x: torch.Tensor) -> torch.Tensor:
    """Equal to x, or next to it, or anything."""
    g = torch.Generator().manual_seed(dice.getrandbits(32))
    which = torch.randint(4, x.shape, generator=g)
    other = drawn(dice, x.dtype)
    if x.dtype is torch.bool:
        return torch.where(which == 0, other, x)
    if x.is_floating_point():
        inf = torch.tensor(float("inf"), dtype=x.dtype)
        up, down = torch.nextafter(x, inf), torch.nextafter(x, -inf)
    else:
        up, down = x + 1, x - 1
    for k, y in enumerate((other, up, down)):
        x = torch.where(which == k, y, x)
    return x


def number(dice: random.Random, dtype: torch.dtype) -> Any:
    """One that each type has, and of the type's class."""
    whole = [int(x) for x in NUMBERS if x == int(x)
             and (x >= 0 or dtype is not torch.uint8)]
    if dtype is torch.bool:
        return bool(dice.getrandbits(1))
    return dice.choice(NUMBERS if dtype.is_floating_point else whole)


def call_of(row: str, dtype: torch.dtype, dice: random.Random) -> Call:
    """The row's target on drawn arguments, whose lists have two tensors."""
    target = target_of(row)
    first = drawn(dice, dtype)
    given: list[Any] = []
    for argument in target._schema.arguments:
        kind = str(argument.type)
        if argument.kwarg_only:
            break
        if argument.name in ("condition", "mask"):
            given.append(drawn(dice, torch.bool))
        elif row == "masked_fill.Tensor" and argument.name == "value":
            given.append(torch.tensor(number(dice, dtype), dtype=dtype))
        elif kind in ("Tensor", "Optional[Tensor]"):
            given.append(beside(dice, first) if given else first)
        elif kind == "List[Tensor]":
            given.append([beside(dice, first) for _ in range(2)])
        elif kind in ("List[number]", "List[float]"):
            given.append([number(dice, dtype) for _ in range(2)])
        elif "number" in kind or "float" in kind:
            given.append(number(dice, dtype))
        elif kind == "bool":
            given.append(False)
        else:
            break
    return Call(target, tuple(given), {})


# --- Eager's two forms --------------------------------------------------------


def apart(x: Any) -> Any:
    """The same values, no two of which are neighbours: eager's kernels take
    them one by one."""
    if not isinstance(x, torch.Tensor) or x.dim() == 0:
        return x
    return torch.stack((x, x), -1)[..., 0]


def allowed(call: Call) -> list[list[torch.Tensor]]:
    return [call.run(), call.with_leaves(apart).run()]


EPS = {torch.float32: 2e-6, torch.float64: 1e-12, torch.bfloat16: 2e-2,
       torch.float16: 3e-3}
# ATen's sixth is an f32 in f64 too.
ROUGH = {"hardsigmoid_backward", "hardsigmoid"}


def near(a: torch.Tensor, b: torch.Tensor, least: float) -> torch.Tensor:
    """Places where they are equal, or a rounding or two apart."""
    assert a.dtype == b.dtype and a.shape == b.shape
    if not b.is_floating_point():
        return a == b
    close = torch.isclose(a.double(), b.double(), equal_nan=True,
                          rtol=max(EPS[b.dtype], least),
                          atol=4 * torch.finfo(b.dtype).tiny)
    return close | (a == b)


def wrong_places(name: str, found: torch.Tensor, wanted: list[torch.Tensor]
                 ) -> list[int]:
    least = 1e-7 if name in ROUGH else 0.0
    right = [near(found, b, least) for b in wanted]
    return (~torch.stack(right).any(0)).flatten().nonzero().flatten().tolist()


# --- Rows ---------------------------------------------------------------------


def calls_drawn(dtype: torch.dtype, dice: random.Random,
                refused: collections.Counter[str]) -> list[Call]:
    calls = []
    for row in ROWS:
        call = call_of(row, dtype, dice)
        try:
            call.run()
        except (RuntimeError, TypeError, NotImplementedError):
            refused[row] += 1
            continue
        calls.append(call)
    return calls


def shown(call: Call, k: int, place: int, found: torch.Tensor,
          wanted: list[torch.Tensor]) -> str:
    flat = [x[k] if isinstance(x, list) else x for x in call.args]
    given = ", ".join(
        f"{x[place].item()!r}" if isinstance(x, torch.Tensor) and x.dim()
        else f"{x!r}" for x in flat)
    return (f"{call.target}({given}) is {found[place].item()!r}, eager's is "
            f"{' or '.join(repr(w[place].item()) for w in wanted)}")


def rows_check(dtype: torch.dtype, seed: int) -> int:
    """How many results were compared."""
    calls = calls_drawn(dtype, random.Random(seed), collections.Counter())
    wanted = [allowed(call) for call in calls]
    problems, count = [], 0
    for mode in MODES:
        for call, found, forms in zip(calls, results_of(calls, mode), wanted,
                                      strict=True):
            for k, a in enumerate(found):
                each = [form[k] for form in forms]
                count += a.numel()
                places = wrong_places(
                    call.target._schema.name.split("::")[1], a, each)
                if places:
                    problems.append(f"{dtype} {mode}, seed {seed}: " + shown(
                        call, k, places[0], a, each))
    assert not problems, "\n".join(problems)
    return count


SOME = (torch.float32, torch.float16, torch.int64, torch.uint8)


@pytest.mark.parametrize("dtype", SOME, ids=str)
def test_rows_at_their_borders(dtype: torch.dtype) -> None:
    rows_check(dtype, 1)


def test_each_row_is_called() -> None:
    """Whatever eager refuses of a row in one type, it takes in another."""
    assert {"relu.default", "eq.Scalar", "hardswish_backward.default"} <= set(
        ROWS)
    never = set(ROWS)
    for dtype in (torch.float32, torch.int64):
        refused: collections.Counter[str] = collections.Counter()
        calls_drawn(dtype, random.Random(1), refused)
        never &= set(refused)
    assert not never


# --- Functions and their gradients --------------------------------------------

T = torch.Tensor
# Of two tensors; numbers are those of `NUMBERS`.
FUNCTIONS: dict[str, Callable[[T, T], T]] = {
    "relu": lambda x, y: F.relu(x),
    "relu6": lambda x, y: F.relu6(x),
    "hardtanh": lambda x, y: F.hardtanh(x, -3.0, 1.0),
    "hardswish": lambda x, y: F.hardswish(x),
    "hardsigmoid": lambda x, y: F.hardsigmoid(x),
    "leaky_relu": lambda x, y: F.leaky_relu(x, 0.5),
    "elu": lambda x, y: F.elu(x, 0.5),
    "selu": lambda x, y: F.selu(x),
    "celu": lambda x, y: F.celu(x, 0.5),
    "softplus": lambda x, y: F.softplus(x, 1.0, 3.0),
    "softplus at 20": lambda x, y: F.softplus(x),
    "logsigmoid": lambda x, y: F.logsigmoid(x),
    "mish": lambda x, y: F.mish(x),
    "softsign": lambda x, y: F.softsign(x),
    "threshold": lambda x, y: F.threshold(x, 0.5, 20.0),
    "hardshrink": lambda x, y: F.hardshrink(x, 0.5),
    "softshrink": lambda x, y: F.softshrink(x, 0.5),
    "prelu": lambda x, y: F.prelu(x, torch.full((1,), 0.5, dtype=x.dtype)),
    "rrelu": lambda x, y: F.rrelu(x, 0.5, 0.5),
    "abs": lambda x, y: x.abs(),
    "sign": lambda x, y: x.sign(),
    "copysign": lambda x, y: torch.copysign(x, y),
    "clamp": lambda x, y: x.clamp(-1.0, 3.0),
    "clamp least": lambda x, y: x.clamp(min=0.5),
    "clamp most": lambda x, y: x.clamp(max=6.0),
    "clamp of tensors": lambda x, y: torch.clamp(x, y, y + 1),
    "maximum": lambda x, y: torch.maximum(x, y),
    "minimum": lambda x, y: torch.minimum(x, y),
    "fmax": lambda x, y: torch.fmax(x, y),
    "fmin": lambda x, y: torch.fmin(x, y),
    "where": lambda x, y: torch.where(x >= y, x, 3 * y),
    "heaviside": lambda x, y: x * torch.heaviside(x.detach(), y.detach()),
    "nan_to_num": lambda x, y: torch.nan_to_num(x, 1.0, 3.0, -3.0),
    "floor": lambda x, y: x.floor() * y,
    "ceil": lambda x, y: x.ceil() * y,
    "round": lambda x, y: x.round() * y,
    "trunc": lambda x, y: x.trunc() * y,
    "frac": lambda x, y: x.frac(),
    "lerp": lambda x, y: torch.lerp(x, y, 0.5),
    "masked_fill": lambda x, y: x.masked_fill(x < y, 3.0),
    "l1": lambda x, y: F.l1_loss(x, y, reduction="none"),
    "smooth_l1": lambda x, y: F.smooth_l1_loss(x, y, reduction="none",
                                               beta=0.5),
    "huber": lambda x, y: F.huber_loss(x, y, reduction="none", delta=0.5),
    "hinge": lambda x, y: F.hinge_embedding_loss(
        x, y.detach().sign(), 1.0, reduction="none"),
    "margin": lambda x, y: F.margin_ranking_loss(
        x, y, torch.ones_like(x), 0.5, reduction="none"),
    "amax": lambda x, y: torch.stack((x, y)).amax(0),
    "amin": lambda x, y: torch.stack((x, y)).amin(0),
    "max": lambda x, y: torch.stack((x, y)).max(0).values,
    "min": lambda x, y: torch.stack((x, y)).min(0).values,
    "cummax": lambda x, y: torch.stack((x, y)).cummax(0).values,
    "logaddexp": lambda x, y: torch.logaddexp(x, y),
    "xlogy": lambda x, y: torch.special.xlogy(x.abs(), y.abs()),
    "pow": lambda x, y: x ** 2.0,
    "remainder": lambda x, y: torch.remainder(x, 3.0),
    "histc": lambda x, y: x[:4] * torch.histc(
        1.4 * x.detach().float(), 4, 0.7, 8.4).to(x.dtype),
}


def with_gradients(f: Callable[[T, T], T], x: T, y: T) -> list[T]:
    x, y = (t.detach().requires_grad_() for t in (x, y))
    out = f(x, y)
    grads = torch.autograd.grad(
        out, (x, y), torch.ones_like(out), allow_unused=True)
    return [out.detach(), *(torch.zeros_like(x) if g is None else g
                            for g in grads)]


def forms_of(f: Callable[[T, T], T], x: T, y: T, mode: str) -> list[list[T]]:
    """Eager's; where nodes are fused, those in f32 too: bf16 and f16 are not
    rounded between the nodes of a program."""
    forms = [with_gradients(f, x, y), with_gradients(f, apart(x), apart(y))]
    if mode == "max-autotune" and x.dtype in FLOATS[2:]:
        wide = with_gradients(f, x.float(), y.float())
        forms.append([t.to(x.dtype) for t in wide])
    return forms


def functions_check(names: list[str], dtype: torch.dtype, mode: str,
                    seed: int) -> int:
    from functorch.compile import aot_function

    dice = random.Random(seed)
    x = drawn(dice, dtype)
    y = beside(dice, x)
    compiler = functools.partial(
        backend.compile_graph, options=backend.Options(mode=mode),
        region=stats.Region("borders"))
    run = aot_function(
        lambda *given: [FUNCTIONS[n](a, b) for n, a, b in zip(
            names, given[::2], given[1::2], strict=True)],
        fw_compiler=functools.partial(compiler, kind="forward"),
        bw_compiler=functools.partial(compiler, kind="backward"),
        decompositions=backend._decompositions())
    given = [t.detach().clone().requires_grad_() for _ in names for t in (x, y)]
    outs = run(*given)
    used = [o for o in outs if o.requires_grad]
    grads = torch.autograd.grad(used, given, [torch.ones_like(o) for o in used],
                                allow_unused=True)
    grads = [torch.zeros_like(x) if g is None else g for g in grads]
    problems, count = [], 0
    for i, name in enumerate(names):
        forms = forms_of(FUNCTIONS[name], x, y, mode)
        found = outs[i].detach(), *grads[2 * i:2 * i + 2]
        for what, a, *each in zip(("value", "gradient of x", "of y"), found,
                                  *forms, strict=True):
            count += a.numel()
            places = wrong_places(name, a, each)
            if places:
                k = places[0]
                problems.append(
                    f"{dtype} {mode}, seed {seed}: {name}({x[k].item()!r}, "
                    f"{y[k].item()!r}): {what} is {a[k].item()!r}, eager's is "
                    f"{' or '.join(repr(e[k].item()) for e in each)}")
    assert not problems, "\n".join(problems)
    return count


@pytest.mark.parametrize("mode", MODES)
def test_functions_at_their_borders(mode: str) -> None:
    names = random.Random(mode).sample(sorted(FUNCTIONS), 16)
    functions_check(names, torch.float32, mode, 1)


@pytest.mark.full
@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS], ids=str)
def test_many(dtype: torch.dtype, rounds: Any) -> None:
    def check(seed: int) -> dict[str, int]:
        return {"rows": rows_check(dtype, seed), "functions": functions_check(
            sorted(FUNCTIONS), dtype, MODES[seed % 2], seed)
            if dtype.is_floating_point else 0}

    rounds(check, 30)
