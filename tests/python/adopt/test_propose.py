# SPDX-License-Identifier: Apache-2.0
"""Declarations inferred from sample calls: right, or the doubt is said."""

from __future__ import annotations

import pytest
import torch

import opgraft

R = torch.randn


def linear(x, w, b):
    return torch.nn.functional.linear(x, w, b)


def total(x, dim):
    return x.sum(dim)


def joined(x, y):
    return torch.cat([x, y])


def gated(x):
    a, b = x.chunk(2, -1)
    return torch.nn.functional.silu(a) * b


def embed(index, table):
    return table[index]


def added(x, y):
    return x + y


def filled(x, sizes):
    return x.sum() * torch.ones(sizes)


def windows(x, size: int, step: int):
    return x.unfold(0, size, step).mean(1)


def swapped(x, order):
    return x.permute(order).clone()


# name, samples, what is proposed, and a call of other sizes.
RIGHT = [
    ("silu_mul", [(R(3, 4), R(3, 4))],
     "silu_mul(Tensor x, Tensor y) -> Tensor", "x[*B], y[*B] -> [*B]",
     "x: f32, y: x -> x", (R(2, 3, 5), R(2, 3, 5))),
    ("scale_add", [(R(3, 4), [1.0, 2.0]),
                   ((R(2), [2.0]), dict(bias=R(2), mode="product"))],
     "scale_add(Tensor x, float[] factors, Tensor? bias=None, *, "
     'float eps=0.5, str mode="sum") -> Tensor', "x[*B], bias?[*B] -> [*B]",
     "x: f32, bias: x -> x", (R(7), [3.0])),
    ("decay_", [(R(3, 4), 0.5)],  # writes its argument
     "decay_(Tensor(a!) x, float rate=0.5) -> ()", "x[*B] ->", "x: f32 ->",
     (R(5), 0.25)),
    ("sneaky_relu", [(R(3, 4),)],  # says nothing of writing it
     "sneaky_relu(Tensor(a!) x) -> Tensor", "x[*B] -> [*B]", "x: f32 -> x",
     (R(5),)),
    ("sum_max", [(R(3, 4),)],  # two results
     "sum_max(Tensor x) -> (Tensor, Tensor)", "x[N, M] -> [N], [N]",
     "x: f32 -> x, x", (R(5, 2),)),
    ("repeat_rows", [(R(3, 4), 2)],  # a dim from an int
     "repeat_rows(Tensor x, int n) -> Tensor", "x[N, M] -> [N * n, M]",
     "x: f32 -> x", (R(2, 5), 4)),
    ("add_into", [(R(3, 4), R(3, 4), R(3, 4))],
     "add_into(Tensor(a!) x, Tensor y, Tensor z) -> ()",
     "x[*B], y[*B], z[*B] ->", "x: f32, y: x, z: x ->",
     (R(6), R(6), R(6))),
    (added, [(R(3, 4), R(4))],  # broadcasting
     "added(Tensor x, Tensor y) -> Tensor",
     "x[*B], y[*A] -> [*broadcast(B, A)]",
     "x: f16|bf16|f32|f64, y: x -> x", (R(2, 1, 3), R(5, 1))),
    (linear, [(R(2, 3, 4), R(5, 4), R(5))],
     "linear(Tensor x, Tensor w, Tensor b) -> Tensor",
     "x[*B, K], w[D, K], b[D] -> [*B, D]",
     "x: f16|bf16|f32|f64, w: x, b: x -> x", (R(3, 2), R(6, 2), R(6))),
    (total, [(R(3, 4), 1)], "total(Tensor x, int dim) -> Tensor",
     "x[*B] -> [*drop(B, dim)]", "x: f16|bf16|f32|f64 -> x", (R(2, 3, 4), -2)),
    (joined, [(R(3, 4), R(2, 4))], "joined(Tensor x, Tensor y) -> Tensor",
     "x[N, M], y[K, M] -> [N + K, M]", "x: f16|bf16|f32|f64, y: x -> x",
     (R(1, 2), R(4, 2))),
    (gated, [(R(3, 8),)], "gated(Tensor x) -> Tensor",
     "x[*B, M] -> [*B, M // 2]", "x: f16|bf16|f32|f64 -> x", (R(4, 2, 6),)),
    (embed, [(torch.tensor([0, 3, 2]), R(6, 5))],
     "embed(Tensor index, Tensor table) -> Tensor",
     "index[*B], table[M, K] -> [*B, K]",
     "index: i32|i64, table: f16|bf16|f32|f64 -> table",
     (torch.tensor([[1], [0]]), R(2, 3))),
    (filled, [(R(3), [2, 2])], "filled(Tensor x, int[] sizes) -> Tensor",
     "x[*B] -> [*sizes]", None, (R(2, 2), [1, 4, 2])),
    (windows, [(R(9), 4, 2)],
     "windows(Tensor x, int size, int step) -> Tensor",
     "x[N] -> [(N - size) // step + 1]", "x: f16|bf16|f32|f64 -> x",
     (R(12), 3, 3)),
    (swapped, [(R(2, 3, 4), [2, 0, 1])],
     "swapped(Tensor x, int[] order) -> Tensor",
     "x[*B] -> [*permute(B, order)]", "x: f16|bf16|f32|f64 -> x",
     (R(5, 6), [1, 0])),
]


def find(opaque, fn):
    return getattr(opaque, fn) if isinstance(fn, str) else fn


def label(case):
    return case[0] if isinstance(case[0], str) else case[0].__name__


# What differs in kind; the rest is in the full run.
QUICK = ("decay_", "sum_max", "repeat_rows", "added", "total")


@pytest.mark.parametrize("case", [
    pytest.param(c, id=label(c),
                 marks=[] if label(c) in QUICK else pytest.mark.full)
    for c in RIGHT])
def test_what_is_inferred_is_right(opaque, case):
    fn, samples, schema, shape, dtype, other = case
    fn = find(opaque, fn)
    found = opgraft.propose(fn, samples)
    assert found.is_certain, str(found)
    assert (found.schema, found.shape) == (schema, shape)
    assert dtype is None or found.dtype == dtype
    f = opgraft.adopt(fn, samples=samples)
    def copies():
        return [a.clone() if isinstance(a, torch.Tensor) else a for a in other]

    ours, theirs = copies(), copies()
    got = torch.compile(lambda *a: f(*a), fullgraph=True, backend="eager")(
        *ours)
    torch.testing.assert_close(got, fn(*theirs))
    for a, b in zip(ours, theirs):
        torch.testing.assert_close(a, b)


def flagged(x, keep: bool = False):
    return x.sum(0, keepdim=keep)


def scaled(x, by: float):
    return x[: int(x.shape[0] * by)].clone()


def typed(x, dtype):
    return x.to(dtype) + 0


DOUBTS = [
    ("counted", [(R(3),)], "two equal calls gave different results"),
    ("passed_on", [(R(3),)], "shares memory with x"),
    (lambda x: x[1:], [(R(3),)], "shares memory with x"),
    (lambda x: x.nonzero(), [(R(6).relu(),)], "depends on values"),
    (lambda x: x.tolist(), [(R(3),)], "returns a list"),
    (lambda xs: xs[0] + 1, [([R(3)],)], "list of tensors"),
    (lambda x, y: x + 1, [(R(3), None)], "None in every sample"),
    (lambda x: x.float().unique(), [(torch.tensor([1, 2, 2, 5]),)],
     "depends on values"),
    (lambda x: torch.empty(sum(n * n * n + 7 for n in x.shape)).zero_(),
     [(R(3, 4),)], "no rule is known"),
    (lambda x: x.new_ones(x.shape).requires_grad_(), [(R(3),)],
     "requires grad by itself"),
    (flagged, [(R(3, 4),)], "keep changes a result's shape"),
    (scaled, [(R(8), 0.5)], "by changes a result's shape"),
    (typed, [(R(8), torch.float64)], "dtype changes a result's"),
]


@pytest.mark.parametrize("fn, samples, text", DOUBTS,
                         ids=[d[2].replace(" ", "-") for d in DOUBTS])
def test_what_is_not_known_is_said(opaque, fn, samples, text):
    fn = find(opaque, fn)
    found = opgraft.propose(fn, samples)
    assert not found.is_certain
    assert any(text in d for d in found.doubts), str(found)
    with pytest.raises(opgraft.Doubt, match="paste it"):
        opgraft.adopt(fn, samples=samples, name="doubt::f")
    assert not hasattr(torch.ops.doubt, "f")


def test_strict_wants_a_word(opaque):
    samples = [(R(3, 4), 2)]
    with pytest.raises(opgraft.Doubt) as caught:
        opgraft.adopt(opaque.repeat_rows, samples=samples, strict=True)
    text = str(caught.value.proposal)
    f = eval("\n".join(line for line in text.splitlines()
                       if not line.startswith("#")),
             {"opgraft": opgraft, "opaque": opaque})
    assert f(R(3, 4), 5).shape == (15, 4)


def test_samples_are_held_against_what_is_said(opaque):
    said = dict(schema="f(Tensor x) -> Tensor", dtype="x: f32 -> x")
    with pytest.raises(ValueError, match="writes x, which the schema does not"):
        opgraft.adopt(opaque.sneaky_relu, **said, shape="x[*N] -> [*N]",
                      samples=[(R(3),)])
    with pytest.raises(ValueError, match=r"gives \[\(4,\)\], the shape rule "
                                         r"says \[\(3,\)\]"):
        opgraft.adopt(lambda x: torch.cat([x, x[:1]]), **said,
                      shape="x[*N] -> [*N]", samples=[(R(3),)])


@pytest.mark.parametrize("samples, text", [
    ([], "samples is empty"),
    ([(R(3), object())], "no type"),
    ([(R(3), 1), (R(3), "a")], "n is int and str|is int and str"),
    ([(R(3),)], "has no"),
    ([(torch.empty(3, device="meta"), 1)], "expected the CPU"),
])
def test_samples_that_are_wrong(samples, text):
    def f(x, n):
        return x + n

    with pytest.raises(ValueError, match=text):
        opgraft.propose(f, samples)


def test_a_sample_that_crashes(opaque):
    with pytest.raises(ValueError, match="sample 0 is refused: it crashed"):
        opgraft.propose(opaque.silu_mul, [(R(5000), R(3))])
