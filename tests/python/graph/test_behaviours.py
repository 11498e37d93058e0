# SPDX-License-Identifier: Apache-2.0
"""What a backend must do with memory and time, value by value: replay at the
same and at other addresses, aliases, mutation, sizes, threads."""

from __future__ import annotations

import functools
import gc
import threading
from typing import Any, Callable

import pytest
import torch
from compare import check, compiled, same
from torch import nn

import opgraft

T = torch.Tensor


# --- Replay -------------------------------------------------------------------


def test_replay_at_the_same_and_other_addresses() -> None:
    def f(x: T, y: T) -> T:
        return (x @ y).relu() + x.sum()

    c = compiled(f)
    x, y = torch.randn(4, 4), torch.randn(4, 4)
    for i in range(6):
        if i < 3:  # in place: the same memory, new values
            x.normal_()
            y.normal_()
        else:
            x, y = torch.randn(4, 4), torch.randn(4, 4)
        same(c(x, y), f(x, y), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int32,
                                   torch.int64, torch.bool])
def test_numbers_for_tensors_have_the_results_type(dtype: torch.dtype) -> None:
    """Of so many elements that the host computes it."""
    def f(x: T) -> T:
        zero = torch.full((), 0, dtype=dtype)
        return torch.where(x > 0, zero, torch.full((), 1, dtype=dtype))

    x = torch.randn(300, 300)
    assert torch.equal(compiled(f)(x), f(x))


def test_output_held_across_replays() -> None:
    def f(x: T) -> T:
        return x * 2 + 1

    c = compiled(f)
    held = [c(torch.full((5,), float(i))) for i in range(8)]
    for i, out in enumerate(held):
        assert torch.equal(out, torch.full((5,), 2.0 * i + 1))


def test_moved_parameter() -> None:
    model = nn.Linear(3, 2)
    c = compiled(model)
    x = torch.randn(4, 3)
    with torch.no_grad():
        same(c(x), model(x))
        model.weight.data = torch.randn(2, 3)
        same(c(x), model(x))
        model.weight.data.mul_(2)
        same(c(x), model(x))
    assert opgraft.stats(c).replans["moved_input"] == 1


def test_two_graphs_share_the_arena() -> None:
    def f(x: T) -> T:
        return (x.exp() @ x.exp().t()).sum(0)

    def g(x: T) -> T:
        return (x.cos() @ x.sin().t()).amax(0)

    one, two = compiled(f), compiled(g)
    x = torch.randn(40, 40)
    for _ in range(3):
        same(one(x), f(x), rtol=1e-4, atol=1e-4)
        same(two(x), g(x), rtol=1e-4, atol=1e-4)


def test_host_argument_changes() -> None:
    def f(x: T, n: int) -> T:
        return x * n + x[: n]

    c = compiled(f, dynamic=True)
    x = torch.randn(1, 8)
    for n in (1, 2, 3, 7, 100, 2):
        same(c(x, n), f(x, n))


def test_plan_limit() -> None:
    def f(x: T) -> T:
        return x.cumsum(0) * 2

    c = compiled(f, dynamic=True, options={"plan_limit": 2})
    for n in (3, 4, 5, 6, 3, 4, 5, 6):
        x = torch.randn(n)
        same(c(x), f(x))
    found = opgraft.stats(c)
    assert found.plans == 2 and found.replans["shape"] == 8


def test_gears() -> None:
    def f(x: T) -> T:
        return x.cumsum(0) * 2

    c = compiled(f, dynamic=True, options={"gears": [3, 8, 8, 5]})
    x = torch.randn(4)
    same(c(x), f(x))
    assert opgraft.stats(c).replans["shape"] == 4  # three gears, and this one
    for n in (8, 3, 5, 4):
        x = torch.randn(n)
        same(c(x), f(x))
    found = opgraft.stats(c)
    assert found.replans["shape"] == 4 and len(found.graphs) == 1
    for wrong in ([1.5], "no", {"s0": 3}, list(range(101)), [-1]):
        torch._dynamo.reset()
        with pytest.raises(Exception, match="option gears"):
            compiled(f, options={"gears": wrong})(x)


# --- Inputs and outputs -------------------------------------------------------


def test_repeated_outputs_and_unused_inputs() -> None:
    def f(x: T, y: T, z: T | None) -> Any:
        a = x + 1
        return a, a, x, {"again": a, "none": z}

    check(f, torch.randn(3), torch.randn(2), None)
    c = compiled(f)
    x = torch.randn(3)
    a, b, same_x, rest = c(x, torch.randn(2), None)
    assert a is b or a.data_ptr() == b.data_ptr()
    assert same_x is x and rest["none"] is None


@pytest.mark.parametrize("shape", [(0, 3), (2, 0), (0,)])
def test_empty(shape: tuple[int, ...]) -> None:
    check(lambda x: (x.relu() + 1, x.sum(), x.reshape(-1)), torch.randn(shape))


def test_layouts() -> None:
    def f(x: T) -> Any:
        return x + 1, x.sum(-1), x @ x.transpose(-1, -2), x.softmax(0)

    base = torch.randn(6, 8)
    for x in (base.t(), base[::2, 1::3], base[1:2].expand(4, 8),
              base.as_strided((3, 4), (2, 5), 3), base[:, 3:4]):
        c = compiled(f)
        same(c(x), f(x), rtol=1e-5, atol=1e-5)
        torch._dynamo.reset()


def test_no_input_no_output() -> None:
    check(lambda: torch.arange(6.0).reshape(2, 3) * 2)
    seen = []

    def f(x: T) -> None:
        x.add_(1)
        seen.append(1)

    check(f, torch.zeros(3))


def test_views_of_one_storage_as_outputs() -> None:
    def f(x: T) -> Any:
        y = x * 2
        a, b = y.split(2)
        return y, a, b, y.t(), y[1]

    with torch.no_grad():
        c = check(f, torch.randn(4, 3))
        y, a, b, t, row = c(torch.randn(4, 3))
        y.fill_(7)
        assert all(bool((v == 7).all()) for v in (a, b, t, row))


def test_view_of_input_as_output() -> None:
    def f(x: T) -> Any:
        return x[1:], x.t(), x.view(-1)

    for grad in (False, True):
        c = compiled(f)
        x = torch.randn(3, 4, requires_grad=grad)
        out = c(x)
        same(out, f(x))
        with torch.no_grad():
            x.fill_(3)
        assert all(bool((o == 3).all()) for o in out)
        torch._dynamo.reset()


def test_inputs_that_overlap() -> None:
    def f(x: T, y: T) -> T:
        x.add_(1)
        return x * y

    base = torch.randn(8)
    other = base.clone()
    c = compiled(f)
    same(c(base[:6], base[2:]), f(other[:6], other[2:]))
    same(base, other)
    # Apart in one storage: no copy is needed, and values are right.
    base, other = torch.randn(8), torch.empty(8)
    other.copy_(base)
    same(c(base[:4], base[4:]), f(other[:4], other[4:]))
    same(base, other)


def test_tied_weights() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(7, 4)
            self.head = nn.Linear(4, 7, bias=False)
            self.head.weight = self.words.weight

        def forward(self, i: T) -> T:
            return self.head(self.words(i))

    model = Tied()
    c = compiled(model)
    i = torch.tensor([1, 3, 3])
    c(i).sum().backward()
    found = model.words.weight.grad.clone()
    model.zero_grad()
    model(i).sum().backward()
    same(found, model.words.weight.grad)


# --- Mutation -----------------------------------------------------------------


def two_inputs(x: T, y: T) -> T:
    x.add_(y)
    y.mul_(2)
    return x - y


def later_reader(x: T) -> T:
    y = x * 2
    x.fill_(0)
    return y + x


def old_value_returned(x: T) -> Any:
    y = x.clone()
    x.add_(1)
    return y


def self_copy(x: T) -> T:
    x.copy_(x)
    return x + 1


def overlapping_copy(x: T) -> T:
    x[1:].copy_(x[:-1].clone())
    return x.sum()


def thrice(x: T) -> T:
    x.add_(1)
    x.mul_(2)
    x.sub_(3)
    return x * 1


def view_before_and_after(x: T) -> Any:
    a = x[1:3]
    x.add_(1)
    b = x[1:3]
    a.mul_(2)
    return a + b


def no_output(x: T) -> None:
    x[0] = 5


def returned_itself(x: T) -> T:
    return x.add_(1)


def swapped(x: T, y: T) -> None:
    a = x.clone()
    x.copy_(y)
    y.copy_(a)


def indexed(x: T, i: T) -> T:
    x[i] = 1.0
    x.index_add_(0, i, torch.ones(2, 4))
    return x.sum()


def metadata(x: T) -> T:
    x.t_()
    return x + 1


@pytest.mark.parametrize("f, args", [
    (two_inputs, (torch.randn(4), torch.randn(4))),
    (later_reader, (torch.randn(4),)),
    (old_value_returned, (torch.randn(4),)),
    (self_copy, (torch.randn(4),)),
    (overlapping_copy, (torch.randn(6),)),
    (thrice, (torch.randn(4, 3),)),
    (view_before_and_after, (torch.randn(4, 3),)),
    (no_output, (torch.randn(4, 3),)),
    (returned_itself, (torch.randn(4),)),
    (swapped, (torch.randn(4), torch.randn(4))),
    (indexed, (torch.randn(5, 4), torch.tensor([0, 3]))),
    (metadata, (torch.randn(2, 3),)),
], ids=lambda v: getattr(v, "__name__", ""))
def test_mutation(f: Callable[..., Any], args: Any) -> None:
    before = [a._version for a in args]
    check(f, *args)
    assert [a._version for a in args] == before
    mine = [a.clone() for a in args]
    start = [a._version for a in mine]
    compiled(f)(*mine)
    theirs = [a.clone() for a in args]
    f(*theirs)
    for a, b, v in zip(mine, theirs, start, strict=True):
        assert (a._version > v) == (b._version > v)


def test_batch_norm_statistics() -> None:
    a, b = nn.BatchNorm1d(3), nn.BatchNorm1d(3)
    c = compiled(a)
    for mode in (True, False, True):
        a.train(mode)
        b.train(mode)
        x = torch.randn(5, 3)
        same(c(x), b(x), rtol=1e-5, atol=1e-5)
        same(list(a.buffers()), list(b.buffers()))


@pytest.fixture(scope="module")
def writer() -> Any:
    """An operator that writes two tensors, and one that writes a list."""
    lib = torch.library.Library("graph_writer", "DEF")
    lib.define("two(Tensor(a!) a, Tensor(b!) b, Tensor x) -> ()")
    lib.define("all(Tensor(a!)[] to, Tensor x) -> Tensor")

    def two(a: T, b: T, x: T) -> None:
        a.copy_(x)
        b.copy_(x * 2)

    def all_(to: list[T], x: T) -> T:
        for i, t in enumerate(to):
            t.copy_(x + i)
        return x + 1

    lib.impl("two", two, "CPU")
    lib.impl("all", all_, "CPU")
    torch.library.register_fake("graph_writer::two", lambda a, b, x: None)
    torch.library.register_fake(
        "graph_writer::all", lambda to, x: torch.empty_like(x))
    yield torch.ops.graph_writer
    lib._destroy()


def _cache(w: Any, c: T, x: T) -> Any:
    w.two(c[:, 0], c[:, 1], x)
    return c.sum() + x


def _list(w: Any, c: T, x: T) -> Any:
    y = w.all([c[:, 1], c[:, 0]], x)
    return y * 2, c + 1


def _intermediate(w: Any, c: T, x: T) -> Any:
    d = c * 2
    w.two(d[:, 0], d[:, 1], x)
    return d


def _overlap(w: Any, c: T, x: T) -> Any:
    w.two(c[:, 0], c[1:, 0], x[:1])
    return c + 1


def _whole_and_part(w: Any, c: T, x: T) -> Any:
    w.all([c, c[:, 0]], x[0, 0])
    return c.cos()


def _whole(w: Any, c: T, x: T) -> Any:
    w.two(x, c[:, 1], x.cos())
    return c.sum() + x


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(
    "f", [_cache, _list, _intermediate, _overlap, _whole_and_part, _whole])
def test_views_of_one_tensor_are_written_in_place(
        f: Any, dynamic: bool, writer: Any) -> None:
    c = check(functools.partial(f, writer), torch.randn(4, 2, 3),
              torch.randn(4, 3), dynamic=dynamic, options={"clone": "error"})
    found = opgraft.stats(c)
    assert not found.clones and found.clone_bytes == 0
    assert all("tensor" not in f["reason"] for f in found.fallbacks)


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_base_that_is_read_later_is_copied_once(
        dynamic: bool, writer: Any) -> None:
    def f(c: T, x: T) -> Any:
        d = c.exp()
        e = d.cumsum(0)
        writer.two(d[:, 0], d[:, 1], x)
        return d, e + c.exp()

    c = check(f, torch.randn(4, 2, 3), torch.randn(4, 3), dynamic=dynamic)
    found = opgraft.stats(c)
    assert [s["reason"] for s in found.clones] == ["its old value is read later"]
    assert found.clone_bytes == 4 * 2 * 3 * 4


def _messages(x: T, i: T) -> Any:
    total = x.new_zeros(8, 4).index_add(0, i, x)
    count = x.new_zeros(8, 4).index_add(0, i, torch.ones_like(x))
    return total / count.clamp(min=1)


def _scatter(x: T, i: T) -> Any:
    index = i.unsqueeze(1).expand(-1, 4)
    return (torch.zeros(8, 4).scatter_add(0, index, x)
            * torch.zeros(8, 4).scatter(0, index, 2.0))


def _parts(x: T, i: T) -> Any:
    a, b = torch.zeros(8, 4), torch.zeros(8, 4)
    a[2:4] = x[:2]
    b[:, 1] = 1
    b[i] = x
    return a * b


def _clones(x: T, i: T) -> Any:
    a, b = x.clone(), x.clone()
    a[1] = 0
    b[:, 1].mul_(2)
    return a + b + x


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("f", [_messages, _scatter, _parts, _clones])
def test_equal_fresh_tensors_that_are_updated_stay_apart(
        f: Any, dynamic: bool) -> None:
    """Merged, each update of them but one would copy."""
    check(f, torch.randn(6, 4), torch.tensor([0, 3, 3, 7, 1, 0]),
          dynamic=dynamic, options={"clone": "error"})


def test_an_update_in_place_keeps_its_results_layout() -> None:
    """The fresh tensor is laid out as x, index_add's result row-major."""
    def f(x: T, i: T) -> T:
        return torch.zeros_like(x).index_add(0, i, x)

    check(f, torch.randn(5, 4, 5).transpose(0, 1), torch.tensor([0, 3, 1, 0]))


def test_gradients_of_parts_need_no_copies() -> None:
    def f(x: T) -> T:
        return (x[:2].sin().sum() + x[3:].cos().sum() + x.select(1, 2).exp(
            ).sum() + x[:, 1:3].tanh().sum() + x[1].sum() * x[2, 2])

    x = torch.randn(6, 4)
    a, b = (x.clone().requires_grad_() for _ in range(2))
    compiled(f, options={"clone": "error"})(a).backward()
    f(b).backward()
    assert a.grad is not None and b.grad is not None
    torch.testing.assert_close(a.grad, b.grad)


# --- Random numbers -----------------------------------------------------------


def test_the_generator_advances_as_in_eager() -> None:
    def f(x: T) -> Any:
        return (torch.nn.functional.dropout(x, 0.4), torch.rand(3),
                torch.randn_like(x), torch.randint(0, 9, (4,)),
                torch.bernoulli(x.sigmoid()))

    c = compiled(f)
    x = torch.randn(6, 7)
    for _ in range(2):
        torch.manual_seed(5)
        wanted = (f(x), torch.rand(2))
        torch.manual_seed(5)
        same((c(x), torch.rand(2)), wanted)


# --- Values beside tensors ----------------------------------------------------


def test_types() -> None:
    def f(x: T) -> Any:
        return x + 1, x * x, (x > 1).sum(), x.to(torch.float64)

    for dtype in (torch.int8, torch.uint8, torch.int16, torch.int32,
                  torch.int64, torch.float16, torch.bfloat16, torch.float64,
                  torch.bool):
        check(f, torch.tensor([0, 1, 2, 3]).to(dtype))
        torch._dynamo.reset()


def test_complex_runs() -> None:
    def f(x: T) -> Any:
        y = torch.fft.fft(x)
        return y.conj() * y, y.imag, y.abs()

    check(f, torch.randn(8))


def test_data_dependent_sizes_run() -> None:
    def f(x: T) -> Any:
        return x[x > 0] * 2, torch.nonzero(x), x.sum().item() + 1

    c = compiled(f)
    for _ in range(3):
        x = torch.randn(9)
        same(c(x), f(x))


def test_control_flow() -> None:
    def f(x: T) -> T:
        return torch.cond(x.sum() > 0, lambda v: v * 2, lambda v: v - 1, (x,))

    c = compiled(f)
    for x in (torch.ones(3), -torch.ones(3)):
        same(c(x), f(x))


INTEGER_FUNCTIONS = [
    torch.exp, torch.sigmoid, torch.sqrt, torch.reciprocal, torch.erf,
    torch.tanh, torch.log1p, torch.atan, torch.isnan, torch.isinf,
    torch.floor, torch.round, torch.sign, torch.abs, torch.neg, torch.relu,
    torch.bitwise_not, torch.logical_not, torch.square,
    lambda x: torch.div(x, x + 1), lambda x: x // 3, lambda x: x % 3,
    lambda x: torch.div(x, 3, rounding_mode="trunc"),
    lambda x: torch.atan2(x, x + 2), lambda x: torch.copysign(x, -x),
    lambda x: x.clamp(1, 3), lambda x: torch.addcmul(x, x, x, value=2),
    lambda x: torch.nn.functional.relu6(x),
    lambda x: torch.nn.functional.hardtanh(x, 0, 2),
    lambda x: torch.nn.functional.threshold(x, 0, 7),
    lambda x: torch.where(x > 0, x, 5), lambda x: torch.maximum(x, -x),
    lambda x: torch.pow(x, 2), lambda x: 2.5 * x, lambda x: x << 1,
]


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8])
def test_integers_have_a_value_or_an_error(dtype: torch.dtype) -> None:
    """What eager computes with integers is computed, never left at 0."""
    x = torch.tensor([1, 2, 3, 5, 0, 4]).to(dtype)
    wanted = [f(x) for f in INTEGER_FUNCTIONS]

    def all_of(x: T) -> list[T]:
        return [f(x) for f in INTEGER_FUNCTIONS]

    same(compiled(all_of)(x), wanted, equal_nan=True)


@pytest.mark.parametrize("f", [
    lambda x: x.clamp(-1, 2), lambda x: x.clamp_min(-1), lambda x: x < -1,
    lambda x: x > -1, lambda x: x == -1, lambda x: x // -3, lambda x: x % -3,
    lambda x: torch.fmod(x, -3), lambda x: x + 300, lambda x: x * -3])
def test_numbers_that_a_type_lacks(f: Callable[[T], T]) -> None:
    """They wrap around in eager."""
    x = torch.tensor([0, 1, 5, 200, 255], dtype=torch.uint8)
    same(compiled(f)(x), f(x))


# --- Gates --------------------------------------------------------------------


def test_fallback_gate() -> None:
    def f(x: T) -> T:
        return torch.special.i0(x)

    same(compiled(f)(torch.ones(3)), f(torch.ones(3)))
    torch._dynamo.reset()
    with pytest.raises(Exception, match=r"i0.*test_behaviours\.py"):
        compiled(f, options={"fallback": "error"})(torch.ones(3))


def test_fallbacks_are_listed() -> None:
    def f(x: T) -> T:
        return torch.special.i0(x) + 1

    c = compiled(f)
    c(torch.ones(3))
    (one,) = opgraft.stats(c).fallbacks
    assert one["operator"] == "aten.i0.default"
    assert one["file"].endswith("test_behaviours.py") and one["line"] > 0


# --- Threads and lifetime -----------------------------------------------------


def test_eight_threads() -> None:
    model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32),
                          nn.Linear(32, 4)).eval()
    c = compiled(model)
    inputs = [torch.randn(8, 16) for _ in range(8)]
    with torch.no_grad():
        wanted = [model(x) for x in inputs]
        c(inputs[0])
    wrong: list[Any] = []

    def work(i: int) -> None:
        with torch.no_grad():
            for _ in range(200):
                out = c(inputs[i])
                if not torch.allclose(out, wanted[i], rtol=1e-4, atol=1e-5):
                    wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
    assert opgraft.stats(c).replays >= 1600


def test_nothing_leaks() -> None:
    import resource

    def f(x: T) -> Any:
        return (x @ x).relu(), torch.special.i0(x), x[1:]

    c = compiled(f)
    x = torch.randn(64, 64)
    for _ in range(50):
        c(x)
    gc.collect()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(3000):
        c(x)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert after - before < 8192, f"{after - before} KiB more"


def test_python_error_keeps_its_type() -> None:
    lib = torch.library.Library("og_test_raises", "DEF")
    lib.define("one(Tensor x, Scalar s) -> Tensor")

    def kernel(x: T, s: Any) -> T:
        if x.sum() > 10:
            raise KeyError("too much")
        return x + s

    lib.impl("one", kernel, "CPU")
    torch.library.register_fake("og_test_raises::one",
                                lambda x, s: torch.empty_like(x), lib=lib)

    def f(x: T) -> T:
        return torch.ops.og_test_raises.one(x, 2) * 2

    c = compiled(f)
    same(c(torch.ones(3)), f(torch.ones(3)))
    with pytest.raises(KeyError, match="too much"):
        c(torch.full((3,), 9.0))
    same(c(torch.ones(3)), f(torch.ones(3)))
