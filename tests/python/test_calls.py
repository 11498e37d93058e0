# SPDX-License-Identifier: Apache-2.0
"""Calls: every argument kind, every form, every refusal's sentence."""

from __future__ import annotations

import pytest
import torch

import opgraft

F32 = torch.float32


def ops() -> object:
    return torch.ops.basics


def test_values_equal_on_both_roads(basics):
    x, y = torch.randn(3, 5), torch.randn(3, 5)
    want = x + 0.25 * y
    assert torch.equal(basics.scale_add(x, y, 0.25), want)
    assert torch.equal(torch.ops.basics.scale_add(x, y, 0.25), want)
    assert torch.equal(basics.scale_add(x, y=y, a=0.25), want)
    assert torch.equal(basics.scale_add(x, y), x + 0.5 * y)


@pytest.mark.parametrize("shape", [(), (0,), (1,), (2, 0, 3), (7,), (2, 3, 4)])
def test_shapes(basics, shape):
    x, y = torch.randn(shape), torch.randn(shape)
    for f in (basics.scale_add, torch.ops.basics.scale_add):
        assert torch.equal(f(x, y, 2.0), x + 2 * y)


def layouts():
    base = torch.randn(6, 8)
    yield "transposed", base.t()
    yield "strided", base[:, ::2]
    yield "offset", base.flatten()[5:29].reshape(4, 6)
    yield "expanded", torch.randn(1, 8).expand(6, 8)
    yield "padded", base[:, :5]


@pytest.mark.parametrize("name,x", list(layouts()), ids=lambda v: v if
                         isinstance(v, str) else "")
def test_layouts(basics, name, x):
    y = torch.randn(x.shape)
    for f in (basics.scale_add, torch.ops.basics.scale_add):
        assert torch.equal(f(x, y, 2.0), x + 2 * y)
        assert torch.equal(f(y, x, 2.0), y + 2 * x)
    for f in (basics.strided_sum, torch.ops.basics.strided_sum):
        torch.testing.assert_close(f(x), x.sum())


def test_out_form(basics):
    x, y = torch.randn(4), torch.randn(4)
    for f in (basics.scale_add, lambda *a, out: torch.ops.basics.scale_add.out(
            *a, out=out)):
        out = torch.empty(4)
        before = out._version
        returned = f(x, y, 2.0, out=out)
        assert returned is out
        assert torch.equal(out, x + 2 * y)
        assert out._version == before + 1
        wide = torch.empty(4, 2)[:, 0]
        f(x, y, 2.0, out=wide)
        assert torch.equal(wide, x + 2 * y)
        with pytest.raises(RuntimeError, match="result 0 is f32\\[3\\] here"):
            f(x, y, 2.0, out=torch.empty(3))
        with pytest.raises(RuntimeError, match="f64"):
            f(x, y, 2.0, out=torch.empty(4, dtype=torch.float64))


def test_inplace_form(basics):
    for f, result in ((basics.scale_add_, True),
                      (torch.ops.basics.scale_add_, None)):
        x, y = torch.randn(4), torch.randn(4)
        want, before = x + 2 * y, x._version
        assert f(x, y, 2.0) is (x if result else None)
        assert torch.equal(x, want)
        assert x._version == before + 1
    wide = torch.zeros(4, 2)
    basics.scale_add_(wide[:, 1], torch.ones(4), 3.0)
    assert wide[:, 1].tolist() == [3] * 4 and wide[:, 0].tolist() == [0] * 4


def test_mutation_returns_its_argument(basics):
    for f, result in ((basics.add_to_, True),
                      (torch.ops.basics.add_to_, None)):
        x = torch.zeros(3)
        before = x._version
        assert f(x, 1.5) is (x if result else None)
        assert x.tolist() == [1.5] * 3
        assert x._version == before + 1


def test_two_mutated_arguments(basics):
    for f in (basics.two_writes, torch.ops.basics.two_writes):
        a, b = torch.ones(3), torch.ones(3)
        versions = a._version, b._version
        assert f(a, b).tolist() == [4] * 3
        assert a.tolist() == [2] * 3 and b.tolist() == [2] * 3
        assert (a._version, b._version) == (versions[0] + 1, versions[1] + 1)
    padded = torch.ones(3, 2)
    basics.two_writes(padded[:, 0], torch.ones(3))
    assert padded[:, 0].tolist() == [2] * 3 and padded[:, 1].tolist() == [1] * 3


def test_functional_form_leaves_its_arguments(basics):
    a, b = torch.ones(3), torch.ones(3)
    total, new_a, new_b = torch.ops.basics.two_writes_functional(a, b)
    assert total.tolist() == [4] * 3 and a.tolist() == [1] * 3
    assert new_a.tolist() == [2] * 3 and new_b.tolist() == [2] * 3
    x = torch.zeros(2)
    assert torch.ops.basics.add_to_functional(x, 1.0).tolist() == [1, 1]
    assert x.tolist() == [0, 0]


def test_every_argument_kind(basics):
    x = torch.tensor([1.0])
    for f in (basics.every_kind, torch.ops.basics.every_kind):
        assert f(x, None, [], 0, False, [], []).item() == 1
        assert f(x, x, [x, x], 3, True, [1, 2], [0.5]).item() == 23.5
        assert f(x, None, [], 0, False, [], [], "minus").item() == -1
        assert f(x, None, [], 0, False, [], [], more=2).item() == 2001
        assert f(x, None, [], 0, False, [], [],
                 dtype=torch.float64).item() == 65
        assert f(x, None, [], 0, False, (), (), device="cpu").item() == 2
        assert f(x, None, [], 0, False, [], [],
                 device=torch.device("cpu")).item() == 2
        with pytest.raises(RuntimeError, match='neither "plus" nor "minus"'):
            f(x, None, [], 0, False, [], [], "times")


def test_scalars(basics):
    x = torch.ones(2)
    for f in (basics.scalar_mul, torch.ops.basics.scalar_mul):
        assert f(x, 3).tolist() == [3, 3]
        assert f(x, 0.5).tolist() == [0.5, 0.5]
        assert f(x, True).tolist() == [1, 1]


def test_no_tensor_argument(basics):
    for f in (basics.iota, torch.ops.basics.iota):
        assert f(4).tolist() == [0, 1, 2, 3]
        assert f(0).tolist() == []
        with pytest.raises(RuntimeError, match="n >= 0"):
            f(-1)


def test_data_dependent_result(basics):
    for f in (basics.positives, torch.ops.basics.positives):
        assert f(torch.tensor([1.0, -1, 2])).tolist() == [0, 2]
        assert f(torch.tensor([-1.0])).tolist() == []


def test_list_result(basics):
    for f in (basics.halves, torch.ops.basics.halves):
        parts = f(torch.arange(5.0), 2)
        assert [p.tolist() for p in parts] == [[0, 1], [2, 3], [4]]


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_threads_and_workspace(basics, threads):
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        x = torch.randn(257, 65)
        for f in (basics.row_sums, torch.ops.basics.row_sums):
            torch.testing.assert_close(f(x), x.sum(1))
    finally:
        torch.set_num_threads(before)


REFUSALS = [
    (lambda m: m.scale_add(torch.ones(2), torch.ones(3)), "y"),
    (lambda m: m.scale_add(torch.ones(2), torch.ones(2, 1)), "y"),
    (lambda m: m.scale_add(torch.ones(2), torch.ones(2).double()), "f64"),
    (lambda m: m.scale_add(torch.ones(2).int(), torch.ones(2).int()), "i32"),
    (lambda m: m.every_kind(torch.ones(0), None, [], 0, False, [], []),
     "prod\\(N\\) > 0"),
    (lambda m: m.every_kind(torch.ones(1), torch.ones(2), [], 0, False, [],
                            []), "y"),
]


@pytest.mark.parametrize("call,text", REFUSALS, ids=range(len(REFUSALS)))
def test_refusals_name_operator_and_argument(basics, call, text):
    for f in (basics, torch.ops.basics):
        with pytest.raises(RuntimeError, match=text) as caught:
            call(f)
        assert "scale_add" in str(caught.value) or "every_kind" in str(
            caught.value)


def test_wrong_python_arguments_are_worded_by_torch(basics):
    x = torch.ones(2)
    for call in (lambda: basics.scale_add(x), lambda: basics.scale_add(x, 3),
                 lambda: basics.scale_add(x, x, "a"),
                 lambda: basics.scale_add(x, x, 1.0, 2.0),
                 lambda: basics.scale_add(x, x, nothing=1)):
        with pytest.raises((TypeError, RuntimeError)):
            call()


def test_failing_calls_leak_nothing(basics):
    import resource

    x, y = torch.ones(1000), torch.ones(1001)

    def many(count):
        for _ in range(count):
            for f in (basics.scale_add, torch.ops.basics.scale_add):
                with pytest.raises(RuntimeError):
                    f(x, y)

    many(500)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    many(2500)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert after - before < 4096  # KiB


def test_calls_from_many_threads(basics):
    import threading

    wrong = []

    def work(seed):
        g = torch.Generator().manual_seed(seed)
        for i in range(300):
            x, y = torch.randn(50, generator=g), torch.randn(50, generator=g)
            f = basics.scale_add if i % 2 else torch.ops.basics.scale_add
            if not torch.equal(f(x, y, 2.0), x + 2 * y):
                wrong.append(seed)

    team = [threading.Thread(target=work, args=(s,)) for s in range(8)]
    for t in team:
        t.start()
    for t in team:
        t.join()
    assert not wrong


def test_profiler_shows_the_operator(basics):
    x = torch.ones(2)
    for f in (basics.scale_add, torch.ops.basics.scale_add):
        with torch.profiler.profile() as p:
            f(x, x)
        assert "basics::scale_add" in {e.key for e in p.key_averages()}


def test_a_kernel_refuses_with_numbers(build) -> None:
    write_rows_ = opgraft.load(build("examples/demo/write_rows.c")).write_rows_
    cache, rows = torch.zeros(8, 4), torch.ones(2, 4)
    with pytest.raises(RuntimeError, match=(
            r"write_rows_: slots\[1\] is 8, expected 0 to 7")):
        write_rows_(cache, rows, torch.tensor([3, 8]))
    assert cache.count_nonzero() == 0
