# SPDX-License-Identifier: Apache-2.0
"""What compiled and frozen graphs write: refused where torch refuses it,
counted as torch counts it, and never lost."""

from __future__ import annotations

from typing import Any, Callable

import pytest
import torch

import opgraft
from opgraft import ops

T = torch.Tensor
INFERENCE = ("Inplace update to inference tensor outside InferenceMode is not "
             "allowed")


def base() -> T:
    return torch.randn(64, generator=torch.Generator().manual_seed(1))


def refuses(f: Callable[..., Any], *args: T, match: str) -> None:
    """And writes nothing."""
    before = [t.detach().clone() for t in args]
    with pytest.raises(RuntimeError, match=match):
        f(*args)
    for t, was in zip(args, before):
        assert torch.equal(t, was)


def to_out(x: T, w: T, y: T) -> T:
    return ops.rms_norm(x, w, out=y)


def in_place(x: T, w: T) -> T:
    return ops.rms_norm_(x, w)


def two(x: T, residual: T, w: T) -> Any:
    return ops.fused_add_rms_norm(x, residual, w)


def aten(x: T, w: T) -> T:
    return x.add_(w)


# --- Frozen graphs: memory ----------------------------------------------------------


def rows(b: T, at: int) -> T:
    return b[at:at + 12].view(3, 4)


FROZEN = {
    "out overlaps x": (to_out, lambda b: (rows(b, 0), b[40:44], rows(b, 4)),
                       r"input 2 \(y\) is written and overlaps input 0 \(x\)"),
    "out holds w": (to_out, lambda b: (rows(b, 0), b[40:44], rows(b, 36)),
                    r"input 2 \(y\) is written and overlaps input 1 \(w\)"),
    "out is x": (to_out, lambda b: (rows(b, 0), b[40:44], rows(b, 0)),
                 r"input 2 \(y\) is written and is the same memory as input 0"),
    "in place around w": (in_place, lambda b: (rows(b, 0), b[4:8]),
                          r"input 0 \(x\) is written and overlaps input 1 \(w"),
    "two are one": (two, lambda b: (rows(b, 0), rows(b, 0), b[40:44]),
                    r"input 0 \(x\) is written and is the same memory as input"),
    "two overlap": (two, lambda b: (rows(b, 0), rows(b, 8), b[40:44]),
                    r"input 0 \(x\) is written and overlaps input 1 \(residual"),
    "aten": (aten, lambda b: (rows(b, 0), b[4:8]),
             r"input 0 \(x\) is written and overlaps input 1 \(w\)"),
}


@pytest.mark.parametrize("name", FROZEN)
@pytest.mark.parametrize("frozen_on", ["own memory", "the same views"])
def test_a_frozen_graph_refuses_writes_that_overlap(
    name: str, frozen_on: str
) -> None:
    f, views, match = FROZEN[name]
    args = views(base())
    like = args if frozen_on == "the same views" else tuple(
        t.clone() for t in args)
    g = opgraft.freeze(f, like)
    refuses(g, *args, match=match)
    own = [t.clone() for t in args]
    want = f(*(t.clone() for t in args))
    torch.testing.assert_close(g(*own), want)


@pytest.mark.parametrize("f, args", [
    (to_out, lambda b: (rows(b, 0), b[40:44], b[20:24].expand(3, 4))),
    (in_place, lambda b: (b[20:24].expand(3, 4), b[40:44])),
    (in_place, lambda b: (b.as_strided((3, 4), (3, 1)), b[40:44])),
])
def test_a_graph_is_not_frozen_to_write_memory_that_overlaps_itself(
    f: Callable[..., Any], args: Callable[[T], tuple[T, ...]]
) -> None:
    refuses(lambda *a: opgraft.freeze(f, a), *args(base()),
            match="is written, and several of its elements")


def test_a_frozen_graph_takes_views_side_by_side() -> None:
    b = base().view(4, 2, 8)[..., :4]
    x, residual, w = b[:, 0], b[:, 1], torch.ones(4)
    want = two(x.clone(), residual.clone(), w)
    opgraft.freeze(two, (x, residual, w))(x, residual, w)
    torch.testing.assert_close((x, residual), want)


def test_out_that_is_the_input_inside_a_frozen_graph() -> None:
    """Where the declaration has `inplace`; of another argument it is refused."""
    x, w = rows(base(), 0), torch.ones(4)
    want = ops.rms_norm(x, w)
    f = opgraft.freeze(lambda x, w: ops.rms_norm(x, w, out=x),
                       (x.clone(), w))
    f(x, w)
    torch.testing.assert_close(x, want)
    refuses(lambda *a: opgraft.freeze(
        lambda x, w: ops.rms_norm(x, w, out=w), a), torch.ones(4), w,
        match="out is written and is the same memory as weight")


# --- What torch does not let anybody write -------------------------------------------


def compiled(f: Callable[..., Any], args: tuple[T, ...]) -> Callable[..., Any]:
    torch._dynamo.reset()
    return torch.compile(f, backend="opgraft")


def frozen(f: Callable[..., Any], args: tuple[T, ...]) -> Callable[..., Any]:
    return opgraft.freeze(f, args)


@pytest.mark.parametrize("road", [compiled, frozen])
@pytest.mark.parametrize("f", [in_place, aten, to_out])
def test_inference_tensors_are_written_in_inference_mode_only(
    road: Callable[..., Any], f: Callable[..., Any]
) -> None:
    with torch.inference_mode():
        x = torch.randn(3, 4)
    others = (torch.ones(4),)
    if f is to_out:
        args = (torch.randn(3, 4), *others, x)
    else:
        args = (x, *others)
    g = road(f, tuple(torch.empty_like(t).fill_(1) for t in map(
        lambda t: torch.empty(t.shape), args)))
    refuses(g, *args, match=INFERENCE)
    g(*(torch.ones(t.shape) for t in args))
    with torch.inference_mode():
        want = f(*(t.clone() for t in args))
        torch.testing.assert_close(g(*args), want)


class Counts(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("n", torch.zeros(4))

    def forward(self, x: T) -> T:
        self.n.add_(1)
        return x * self.n


def test_a_frozen_graph_leaves_a_buffer_of_inference_mode() -> None:
    with torch.inference_mode():
        m = Counts()
        f = opgraft.freeze(m, (torch.ones(4),))
    refuses(lambda n: f(torch.ones(4)), m.n, match=INFERENCE)


@pytest.mark.parametrize("which", [0, 1])
def test_a_frozen_graph_refuses_what_requires_grad(which: int) -> None:
    f = opgraft.freeze(to_out, (torch.ones(3, 4), torch.ones(4),
                                torch.ones(3, 4)))
    args = [torch.randn(3, 4), torch.ones(4), torch.randn(3, 4)]
    args[which * 2].requires_grad_()
    refuses(f, *args, match="requires grad, and a frozen call gives no gradient")
    with torch.no_grad():
        torch.testing.assert_close(
            f(*args), ops.rms_norm(args[0], args[1]))


# --- Writes are counted --------------------------------------------------------------


@pytest.mark.parametrize("f", [in_place, aten])
def test_a_frozen_graph_counts_its_writes(f: Callable[..., Any]) -> None:
    """A gradient that needs what was overwritten is an error, as in eager."""
    x, w = torch.randn(3, 4), torch.ones(4)
    g = opgraft.freeze(f, (x.clone(), w))
    saved = (torch.ones(3, 4, requires_grad=True) * x).sum()
    g(x, w)
    assert x._version == 1 and w._version == 0
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        saved.backward()
    with pytest.raises(opgraft.GuardError):
        g(x[:2], w)
    assert x._version == 1


def test_a_frozen_graph_counts_its_writes_of_buffers() -> None:
    m = Counts()
    f = opgraft.freeze(m, (torch.ones(4),))
    before = m.n._version
    f(torch.ones(4))
    assert m.n._version == before + 1 and torch.equal(m.n, torch.ones(4))


# --- Writes are not lost -------------------------------------------------------------


def rolled(x: T, y: T) -> T:
    kept = x.clone()
    x.copy_(y)
    return kept


def part(x: T, y: T) -> T:
    x[1:].copy_(y[1:])
    return x.clone()


TYPES = [torch.complex64, torch.complex128, torch.uint16, torch.uint64,
         torch.bool, torch.bfloat16, torch.float64]


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("road", [compiled, frozen])
@pytest.mark.parametrize("f", [rolled, part])
def test_a_write_of_every_type_reaches_its_tensor(
    f: Callable[..., Any], road: Callable[..., Any], dtype: torch.dtype
) -> None:
    """Also of types that the engine does not compute with."""
    x, y = torch.arange(4).to(dtype), torch.tensor([2, 0, 3, 1]).to(dtype)
    own, x_own = x.clone(), x.clone()
    want = f(own, y)
    g = road(f, (x.clone(), y))
    found = g(x_own, y)
    for a, b in ((found, want), (x_own, own)):
        assert torch.equal(a.view(torch.uint8), b.view(torch.uint8))
    storage = x.repeat(2)
    refuses(lambda s: g(s[:4], s[2:6]), storage, match="is written and overlaps")


@pytest.mark.parametrize("dtype", [torch.complex64, torch.float8_e4m3fn], ids=str)
def test_a_write_that_converts_reaches_its_tensor(dtype: torch.dtype) -> None:
    x, own = torch.zeros(3, dtype=dtype), torch.zeros(3, dtype=dtype)
    y = torch.arange(3.0)
    compiled(lambda x, y: x.copy_(y), (x, y))(x, y)
    own.copy_(y)
    assert torch.equal(x.view(torch.uint8), own.view(torch.uint8))


@pytest.mark.parametrize("make", [
    lambda: torch._neg_view(torch.arange(3.0)),
    lambda: torch.arange(3).to(torch.complex64).conj()])
def test_a_write_through_a_lazy_view_is_refused(
    make: Callable[[], T]
) -> None:
    x = make()
    refuses(compiled(lambda x: x.add_(1), (x,)), x,
            match="memory does not hold what it shows")
    torch.testing.assert_close(  # read only, it is taken
        compiled(lambda x: x + 1, (x,))(x), (x + 1).resolve_neg())
