# SPDX-License-Identifier: Apache-2.0
"""What ATen's operators do at their borders (_graph/meaning.py): the table is
this torch's and the engine's, and an operator that computes otherwise, as a
newer torch's might, is found and left to ATen."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest
import torch
from compare import compiled
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

import opgraft
from opgraft._graph import meaning

# By torch: what it computes otherwise than the oldest that is tested.
CHANGED: dict[str, list[str]] = {
    "2.13": [], "2.14": [],
    "2.15": ["aten._foreach_clamp_min.Scalar", "aten._foreach_clamp_max.Scalar",
             "aten.clamp.default#wraps"]}
PAIRS = [(name, arguments, wanted) for name, calls in meaning.calls().items()
         for arguments, wanted in calls]


def test_the_table_is_this_torch_s() -> None:
    version = ".".join(torch.__version__.split(".")[:2])
    assert meaning.changed() == CHANGED[version]


@pytest.mark.full
def test_the_table_is_the_engine_s() -> None:
    """All calls that raise nothing, as one graph."""
    pairs = [p for p in PAIRS if "Error" not in p[2] and meaning.is_kept(p[0])]
    names = list("FGBIJSTM")
    tensors = [meaning._arguments()[n] for n in names]

    def f(*tensors: torch.Tensor) -> list[Any]:
        given = dict(zip(names, tensors))
        return [meaning.call(name, arguments, **given)
                for name, arguments, _ in pairs]

    gm = make_fx(f)(*tensors)
    c = compiled(gm)
    found = [meaning._text(value) for value in c(*tensors)]
    wrong = [(name, arguments, text, wanted) for
             (name, arguments, wanted), text in zip(pairs, found)
             if text != wanted]
    assert not wrong
    left = {row["operator"] for row in opgraft.stats(c).fallbacks}
    assert not left & {name for name, *_ in pairs}
    assert len(pairs) > 80


@pytest.mark.parametrize("mode", ["default", "max-autotune"])
@pytest.mark.parametrize("size", [2, 30])
@pytest.mark.parametrize("scale", [{"alpha": 0}, {"beta": 0}], ids=str)
def test_products_that_do_not_count(scale: Any, size: int, mode: str) -> None:
    """Of a factor that is not a number: the size decides in a batch."""
    def f(x: torch.Tensor, y: torch.Tensor) -> Any:
        z = (y, x) if "beta" in scale else (x, y)
        return (torch.addmm(z[0], z[1], x, **scale),
                torch.baddbmm(z[0][None], z[1][None], x[None], **scale))

    x = torch.ones(size, size)
    given = x, x * float("nan")
    torch.testing.assert_close(compiled(f, mode=mode)(*given), f(*given),
                               equal_nan=True)


def test_the_answer_is_that_of_no_mode() -> None:
    """Whatever the thread that compiles is in, and what its defaults are."""
    found = []

    def ask(x: torch.Tensor) -> torch.Tensor:
        meaning.is_kept.cache_clear()
        found.append(meaning.changed())
        return x.sum()

    x = torch.ones(3)
    ask(x)
    for mode in (FakeTensorMode(allow_non_fake_inputs=True),
                 torch.inference_mode(), torch.autocast("cpu"),
                 torch.device("meta")):
        with mode:
            ask(x)
    for transform in (torch.func.grad, torch.func.vmap,
                      torch.func.functionalize, make_fx):
        transform(ask)(x)
    assert len(found) == 9 and found == found[:1] * 9


# --- Planted changes ----------------------------------------------------------

# Of what is drawn: those that torch itself calls while it compiles are not.
PLANTED = """
import random, sys, torch
import opgraft
from opgraft._graph import meaning
from torch.fx.experimental.proxy_tensor import make_fx

MACHINERY = {"full", "fill", "arange", "_to_copy", "eq", "ne", "lt", "any",
             "sum", "index", "add", "sub", "mul", "max", "_foreach_clamp_min",
             "_foreach_clamp_max", "bitwise_not", "logical_not", "gather"}
names = [n for n, calls in meaning.calls().items() if "#" not in n
         and n.split(".")[1] not in MACHINERY and "Error" not in calls[0][1]]
drawn = random.Random(int(sys.argv[1])).sample(names, int(sys.argv[2]))
library = torch.library.Library("aten", "IMPL")

def plant(name):
    _, packet, overload = name.split(".")
    packet = getattr(torch.ops.aten, packet)
    def read(schema):
        return [(a.name, str(a.type)) for a in schema.arguments if not a.is_out]
    own = read(getattr(packet, overload)._schema)
    for form in packet.overloads():
        schema = getattr(packet, form)._schema
        if read(schema) == own:
            form = ("." + schema.overload_name).rstrip(".")
            plant_one(schema.name[6:] + form)

def plant_one(op):
    kernel = torch.library.get_kernel("aten::" + op, "CPU")
    name, _, overload = op.partition(".")
    kinds = [str(a.type) for a in
             torch._C._get_schema("aten::" + name, overload).arguments]
    def other(keys, *args, **kwargs):  # ATen's tensor of a number comes as one
        args = [torch.tensor(a) if k == "Tensor" and isinstance(a, (int, float))
                else a for a, k in zip(args, kinds)]
        found = kernel.call_boxed(keys, *args, **kwargs)
        first = found[0] if isinstance(found, tuple) else found
        if first.dtype == torch.bool:
            first.logical_not_()
        else:
            first.zero_().add_(77)
        return found
    library.impl(op, other, "CPU", with_keyset=True)

for name in drawn:
    plant(name)
arguments = meaning._arguments()
letters = list("FGBIJST")
for name in drawn:
    for text, wanted in meaning.calls()[name]:
        if "Error" in wanted:
            continue
        def f(*given):
            return meaning.call(name, text, **dict(zip(letters, given)))
        torch._dynamo.reset()
        given = [arguments[n] for n in letters]
        gm = make_fx(f)(*given)
        c = torch.compile(gm, backend="opgraft")
        eager, found = meaning._text(f(*given)), meaning._text(c(*given))
        assert eager == found != wanted, (name, text, eager, found)
        left = [row["operator"] for row in opgraft.stats(c).fallbacks]
        assert name in str(left), (name, left, gm.code)
        print(name, "is ATen's")
"""


def planted(seed: int, count: int) -> int:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PLANTED, str(seed), str(count)],
        capture_output=True, text=True, env=os.environ | {"OPGRAFT_LOG": "1"})
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stderr.count("in the engine: ATen runs it") >= count
    return done.stdout.count("is ATen's")


@pytest.mark.full
def test_a_changed_operator_is_found_and_left_to_aten() -> None:
    assert planted(seed=1, count=3) >= 3


@pytest.mark.full
def test_every_changed_operator_is_found() -> None:
    for seed in range(2 if "OPGRAFT_SMOKE" in os.environ else 12):
        assert planted(seed, count=10) >= 10


# The meaning of 2.15: a bound that the type lacks is left out, or an error
# where it leaves nothing.
CLAMPS = """
import random, torch
import opgraft
from opgraft._graph import meaning

library = torch.library.Library("aten", "IMPL")
def clamp(x, low, high):
    if x.is_floating_point():
        return x.clone() if low is high is None else torch.where(
            x > high, high, x) if low is None else torch.where(x < low, low, x)
    ends = torch.iinfo(x.dtype)
    for name, bound, is_out in (("min", low, lambda b: b > ends.max),
                                ("max", high, lambda b: b < ends.min)):
        if bound is not None and is_out(bound):
            raise RuntimeError(f"Clamp {name} value {bound} is outside the "
                               "representable range")
    found = x.long()
    for bound, pick in ((low, torch.maximum), (high, torch.minimum)):
        if bound is not None:
            found = pick(found, torch.tensor(bound))
    return found.to(x.dtype)
def into(f):
    return lambda *a, out: out.copy_(f(*a))
for name, f in (("clamp", clamp), ("clamp_min", lambda x, b: clamp(x, b, None)),
                ("clamp_max", lambda x, b: clamp(x, None, b))):
    wide = (lambda x, min=None, max=None: clamp(x, min, max))
    library.impl(name, wide if name == "clamp" else f, "CPU")
    library.impl(name + ".out", into(wide if name == "clamp" else f), "CPU")

FORMS = {"clamp_min": lambda x, b: x.clamp_min(b),
         "clamp_max": lambda x, b: x.clamp_max(b),
         "clamp": lambda x, b: x.clamp(b, 2),
         "most": lambda x, b: x.clamp(2, b)}
def result(f, x, b):
    try:
        return f(x, b).tolist()
    except RuntimeError as error:
        return str(error)

drawn = random.Random(3)
tried = raised = 0
for name, f in FORMS.items():
    for dtype in (torch.uint8, torch.int8, torch.int16):
        ends = torch.iinfo(dtype)
        x = torch.tensor([ends.min, 0, 1, 5, ends.max], dtype=dtype)
        for b in drawn.sample([-1, -70000, ends.min - 1, ends.max + 1, 3,
                               70000], 1):
            torch._dynamo.reset()
            c = torch.compile(f, backend="opgraft")
            eager, found = result(f, x, b), result(c, x, b)
            assert ("outside" in eager and "outside" in found
                    if isinstance(eager, str) else eager == found), (
                name, dtype, b, eager, found)
            tried, raised = tried + 1, raised + isinstance(eager, str)
torch._dynamo.reset()
c = torch.compile(FORMS["clamp_min"], backend="opgraft")
x = torch.randn(5)
assert torch.equal(c(x, 0.5), FORMS["clamp_min"](x, 0.5))
left = [row["operator"] for row in opgraft.stats(c).fallbacks]
print(tried, raised, left)
"""


@pytest.mark.full
def test_clamp_of_integers_as_newer_torches_have_it() -> None:
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", CLAMPS],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    tried, raised, left = done.stdout.split(maxsplit=2)
    assert int(tried) == 12 and 0 < int(raised) < 12
    # Only those of integers are ATen's.
    assert left.strip() == "[]"
