# SPDX-License-Identifier: Apache-2.0
"""The operators of tests/ops beside the ATen operators that they mimic, on
PyTorch's own samples (common_methods_invocations.op_db).

Each case says what of a sample our schema takes; the rest is skipped and
counted with its reason, and the last test prints the counts. Every sample runs
as it came, strided, transposed in memory and at an offset; samples without
elements, without dims and with broadcasting are added where op_db has none.
"""

from __future__ import annotations

import warnings
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Callable, Iterator

import pytest
import torch
import torch.nn.functional as F
from torch.utils import _pytree as pytree

op_db = pytest.importorskip(
    "torch.testing._internal.common_methods_invocations"
).op_db

F32, F64, BF16, F16 = torch.float32, torch.float64, torch.bfloat16, torch.float16
FLOATS = (F32, F64, BF16, F16)
NUMBERS = (F32, F64, BF16, torch.int64, torch.uint8)
REALS = (*NUMBERS, torch.bool)
ANY = (F32, torch.int32, torch.bool, torch.complex64)
SAMPLES_MAX = 32  # of one type; of more, every nth

Call = tuple[tuple[Any, ...], dict[str, Any]]
Make = Callable[..., torch.Tensor]


class SkipSample(Exception):
    """The sample says what our schema does not take."""


def skip_if(condition: bool, why: str) -> None:
    if condition:
        raise SkipSample(why)


# --- From op_db's samples to our arguments ----------------------------------------


def as_is(x: Any, *args: Any, **kwargs: Any) -> Call:
    return (x, *args), kwargs


def with_tensor(x: Any, other: Any, **kwargs: Any) -> Call:
    skip_if(not isinstance(other, torch.Tensor), "the other argument is a number")
    return (x, other), kwargs


def as_number(value: Any) -> Any:
    """A Scalar for what op_db gives as a tensor: its first element."""
    if not isinstance(value, torch.Tensor):
        return value
    skip_if(value.numel() == 0, "no element to make a number of")
    return value.flatten()[0].item()


def with_number(x: Any, other: Any) -> Call:
    return (x, as_number(other)), {}


def where_args(x: Any, condition: Any, other: Any) -> Call:
    skip_if(not isinstance(other, torch.Tensor), "the other argument is a number")
    return (condition, x, other), {}


def with_scalars(x: Any, *bounds: Any) -> Call:
    return (x, *map(as_number, bounds)), {}


def filled(x: Any, mask: Any, value: Any) -> Call:
    return (x, mask, as_number(value)), {}


def as_list(value: Any) -> Any:
    return [value] if isinstance(value, int) else value


NO_DIMS = "x has no dims, and the rules take no dim of none"


def sum_args(x: Any, dim: Any = None, keepdim: bool = False, **kwargs: Any) -> Call:
    skip_if(x.dim() == 0 and dim not in (None, []), NO_DIMS)
    skip_if(keepdim, "keepdim: it is the overload sum.keep here")
    return (x, as_list(dim)), kwargs


def kept_sum_args(x: Any, dim: Any = None, keepdim: bool = False,
                  **kwargs: Any) -> Call:
    skip_if(x.dim() == 0 and dim not in (None, []), NO_DIMS)
    skip_if(not keepdim, "no keepdim: it is the overload sum here")
    return (x, as_list(dim)), kwargs


def reduced(x: Any, dim: Any = (), keepdim: bool = False, **kwargs: Any) -> Call:
    skip_if(keepdim, "keepdim is not in the schema")
    skip_if(bool(kwargs), f"{', '.join(kwargs)} is not in the schema")
    skip_if(x.dim() == 0 and dim not in ((), []), NO_DIMS)
    return (x, list(as_list(dim) or [])), {}


def along(x: Any, *args: Any, **kwargs: Any) -> Call:
    """Operators whose rule is x[*A, D@dim, *B]: that wants a dim."""
    skip_if(x.dim() == 0, NO_DIMS)
    return (x, *args), kwargs


def softmax_args(x: Any, dim: int, dtype: Any = None) -> Call:
    skip_if(dtype is not None, "dtype is not in the schema")
    return (x, dim), {}


def counted(x: Any, weights: Any = None, minlength: int = 0) -> Call:
    return (x, weights, minlength, 64), {}


def gather_args(x: Any, dim: int, index: Any, **kwargs: Any) -> Call:
    skip_if(index.dtype == torch.uint8, "the index is uint8")
    skip_if(index.dim() != x.dim(), "x and index differ in rank")
    return (x, dim, index), kwargs


def embedding_args(weight: Any, indices: Any, padding_idx: Any = None,
                   **kwargs: Any) -> Call:
    for name, value in kwargs.items():
        skip_if(bool(value), f"{name} is not in the schema")
    if padding_idx is None:
        return (weight, indices), {}
    return (weight, indices, padding_idx % weight.shape[0]), {}


def sort_args(x: Any, dim: int = -1, descending: bool = False,
              stable: Any = None) -> Call:
    skip_if(x.dim() == 0, NO_DIMS)
    return (x, dim, descending), {}


def topk_args(x: Any, k: int, dim: int = -1, largest: bool = True,
              is_sorted: bool = True) -> Call:
    skip_if(x.dim() == 0, NO_DIMS)
    return (x, k, dim, largest), {}


def cat_args(xs: Any, dim: int = 0) -> Call:
    skip_if(len({x.dim() for x in xs}) != 1,
            "an empty tensor of another rank, which ATen leaves out")
    skip_if(len({x.dtype for x in xs}) != 1, "the tensors are of several types")
    return (list(xs), dim), {}


def expand_args(x: Any, size: Any) -> Call:
    skip_if(-1 in size, "-1 in size: [*size] takes sizes as they are")
    return (x, list(size)), {}


def repeat_args(x: Any, repeats: Any, dim: Any = None,
                output_size: Any = None) -> Call:
    skip_if(isinstance(repeats, torch.Tensor), "repeats is a tensor")
    skip_if(dim is None, "no dim: the flattened form")
    return (x, repeats, dim), {}


def roll_args(x: Any, shifts: Any, dims: Any = ()) -> Call:
    return (x, as_list(shifts), list(as_list(dims))), {}


def matrix_args(x: Any, *args: Any, **kwargs: Any) -> Call:
    skip_if(x.dim() < 2, "not a matrix")
    return (x, *args), kwargs


def diagonal_args(x: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Call:
    skip_if((dim1 % x.dim(), dim2 % x.dim()) != (x.dim() - 2, x.dim() - 1),
            "dims that are not the last two")
    return (x, offset), {}


def embedded_diagonal(x: Any, offset: int = 0, dim1: int = -2,
                      dim2: int = -1) -> Call:
    rank = x.dim() + 1
    skip_if((dim1 % rank, dim2 % rank) != (rank - 2, rank - 1),
            "dims that are not the last two")
    return (x, offset), {}


def addmm_args(start: Any, a: Any, b: Any, **kwargs: Any) -> Call:
    return (start, a, b), kwargs


def conv_args(x: Any, weight: Any, bias: Any = None, **kwargs: Any) -> Call:
    skip_if(isinstance(kwargs.get("padding"), str), "padding is a word")
    values = {k: v[0] if isinstance(v, (list, tuple)) else v
              for k, v in kwargs.items()}
    return (x, weight, bias), values


def pool_args(x: Any, kernel_size: Any, stride: Any = None, padding: Any = 0,
              dilation: Any = 1, ceil_mode: bool = False,
              return_indices: bool = False) -> Call:
    skip_if(ceil_mode, "ceil_mode is not in the schema")
    values = [v[0] if isinstance(v, (list, tuple)) else v
              for v in (kernel_size, stride, padding, dilation)]
    return (x, *values), {}


def keyword_number(x: Any, **kwargs: Any) -> Call:
    return (x, *kwargs.values()), {}


# --- What a case is ------------------------------------------------------------------


@dataclass
class Case:
    ours: str  # file.function
    reference: Callable[..., Any]  # ATen's, with our arguments
    name: str  # in op_db; "" where all samples are generated
    types: tuple[torch.dtype, ...]
    adapt: Callable[..., Call] = as_is
    variant: str = ""
    grad: bool = True
    extra: Callable[[Make], Iterator[Any]] = lambda make: iter(())
    inplace: str = ""
    same: Callable[..., None] | None = None
    tolerance: float = 0.0  # of bf16 and f16, where ATen rounds between steps
    counts: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)


def several(*shapes: tuple[int, ...]) -> Callable[[Make], Iterator[Any]]:
    """One call for each shape of one tensor."""
    return lambda make: ((make(shape),) for shape in shapes)


def pairs(make: Make) -> Iterator[Any]:
    for a, b in (((3, 1), (4,)), ((), (2, 3)), ((0, 3), (1, 3)), ((), ()),
                 ((2, 1, 3), (5, 1))):
        yield make(a), make(b)


def ordered(found: Any, wanted: Any, args: Any) -> None:
    """Values as ATen's; indices that lead to them, for equal values may stand
    in any order."""
    torch.testing.assert_close(found[0], wanted[0], equal_nan=True)
    x, dim = args[0], args[-2]
    assert found[1].shape == wanted[1].shape
    assert torch.equal(x.gather(dim, found[1]), found[0])


def stable_order(found: Any, wanted: Any, args: Any) -> None:
    torch.testing.assert_close(list(found), list(wanted), equal_nan=True)


def slice_reference(x: torch.Tensor, dim: int = 0, start: Any = None,
                    end: Any = None, step: int = 1) -> torch.Tensor:
    return torch.ops.aten.slice(x, dim, start, end, step).clone()


def relu_extra(make: Make) -> Iterator[Any]:
    yield from several((), (0, 3), (2, 3, 4), (7,))(make)


def clamp_extra(make: Make) -> Iterator[Any]:
    low = 1 if make(()).dtype == torch.uint8 else -1  # ATen wraps -1 to 255
    for bounds in ((low, 2), (0, None), (None, 1), (4, 2)):
        for shape in ((), (0, 2), (3, 4)):
            yield (make(shape), *bounds)


def embedding_extra(make: Make) -> Iterator[Any]:
    weight = make((7, 3))
    for indices in (torch.tensor(3), torch.empty(0, 2, dtype=torch.int64),
                    torch.tensor([[1, 6, 1]]), torch.tensor([0, 1], dtype=torch.int32)):
        yield weight, indices, 1


def linear_extra(*shapes: tuple[tuple[int, ...], ...]) -> Any:
    return lambda make: (tuple(make(s) for s in row) for row in shapes)


def where_extra(make: Make) -> Iterator[Any]:
    for c, a, b in (((3, 1), (4,), ()), ((), (2, 3), (3,)), ((0, 2), (2,), (1, 2))):
        yield torch.rand(c) > 0.5, make(a), make(b)


def masked_extra(make: Make) -> Iterator[Any]:
    for a, b in (((3, 1), (4,)), ((), (2, 2)), ((0, 3), (1, 3)), ((2, 3), ())):
        yield make(a), torch.rand(b) > 0.5, 2


def pow_extra(make: Make) -> Iterator[Any]:
    for exponent in (2, 0, 3, -1, 0.5):
        for shape in ((), (0, 2), (3, 4)):
            x = make(shape)
            yield again(x.detach().abs().add(0.5), x), exponent


CASES = [
    Case("pointwise.add", torch.add, "add", REALS, with_tensor, extra=pairs,
         inplace="add_"),
    Case("pointwise.mul", torch.mul, "mul", REALS, with_tensor, extra=pairs,
         inplace="mul_"),
    Case("pointwise.div", torch.div, "div", FLOATS, with_tensor,
         variant="no_rounding_mode", extra=pairs),
    Case("pointwise.remainder", torch.remainder, "remainder", NUMBERS,
         with_tensor, grad=False, extra=lambda make: (
             (a, b.detach().abs().clamp(min=1)) for a, b in pairs(make))),
    Case("pointwise.heaviside", torch.heaviside, "heaviside", REALS,
         with_tensor, grad=False, extra=pairs),
    Case("pointwise.where", torch.where, "where", REALS, where_args,
         extra=where_extra),
    Case("pointwise.clamp", torch.clamp, "clamp", NUMBERS, with_scalars,
         extra=clamp_extra, inplace="clamp_"),
    Case("pointwise.exp", torch.exp, "exp", FLOATS, extra=relu_extra,
         inplace="exp_"),
    Case("pointwise.relu", torch.relu, "nn.functional.relu", FLOATS,
         extra=relu_extra, inplace="relu_"),
    Case("pointwise.sigmoid", torch.sigmoid, "sigmoid", FLOATS, extra=relu_extra),
    Case("pointwise.gelu", F.gelu, "nn.functional.gelu", FLOATS,
         extra=relu_extra),
    Case("pointwise.pow_Scalar", torch.pow, "pow", FLOATS, with_number,
         extra=pow_extra),
    Case("pointwise.logical_not", torch.logical_not, "logical_not", REALS,
         grad=False, extra=relu_extra),
    Case("pointwise.nan_to_num", torch.nan_to_num, "nan_to_num", FLOATS,
         extra=relu_extra, inplace="nan_to_num_"),
    Case("pointwise.masked_fill", torch.masked_fill, "masked_fill", REALS,
         filled, extra=masked_extra, inplace="masked_fill_"),
    Case("reduce.sum", lambda x, dim=None, dtype=None: torch.sum(
        x, dim, dtype=dtype), "sum", FLOATS, sum_args,
        extra=lambda make: ((make(s), [0]) for s in ((0, 3), (3, 0), (2, 3, 4)))),
    Case("reduce.sum_keep", lambda x, dim=None, dtype=None: torch.sum(
        x, dim, keepdim=True, dtype=dtype), "sum", FLOATS, kept_sum_args,
        extra=lambda make: ((make(s), [0]) for s in ((0, 3), (3, 0), (2, 3, 4)))),
    Case("reduce.mean", lambda x, dim: torch.mean(x, dim), "mean", FLOATS,
         reduced, extra=lambda make: ((make(s), [0]) for s in ((3, 0), (2, 3)))),
    Case("reduce.amax", torch.amax, "amax", REALS, reduced,
         extra=lambda make: ((make(s), [0]) for s in ((3, 0), (2, 3)))),
    Case("reduce.cumsum", lambda x, dim, dtype=None: torch.cumsum(
        x, dim, dtype=dtype), "cumsum", FLOATS, along,
        extra=lambda make: ((make(s), -1) for s in ((0, 3), (3, 0), (2, 3, 4)))),
    Case("reduce.softmax", torch.softmax, "softmax", FLOATS, softmax_args),
    Case("reduce.log_softmax", torch.log_softmax, "log_softmax", FLOATS,
         softmax_args, tolerance=0.01),
    Case("reduce.layer_norm", F.layer_norm, "nn.functional.layer_norm",
         FLOATS[:3], extra=lambda make: (
             (make((0, 4)), [4], make((4,)), make((4,))),
             (make((5,)), [5], None, None, 1e-3),
             (make((2, 3, 4)), [3, 4], None, make((3, 4))))),
    Case("reduce.rms_norm", F.rms_norm, "nn.functional.rms_norm", FLOATS[:2],
         extra=lambda make: ((make((0, 4)), [4], make((4,))),
                             (make((2, 3, 4)), [3, 4], None, 1e-3))),
    Case("reduce.bincount", lambda x, weights, minlength, limit: torch.bincount(
        x, weights, minlength).double(), "bincount", (torch.int64, torch.uint8),
        counted, grad=False, extra=lambda make: (
            (make((0,)).abs(), None, n, 64) for n in (0, 3))),
    Case("index.index_select", torch.index_select, "index_select", (*FLOATS[:3], *ANY[1:]),
         along, extra=lambda make: (
             (make((3, 4)), 1, torch.tensor([3, 0, 0])),
             (make((3, 4)), -2, torch.empty(0, dtype=torch.int64)),
             (make((3, 0, 4)), 2, torch.tensor([1], dtype=torch.int32)))),
    Case("index.gather", torch.gather, "gather", (*FLOATS[:3], *ANY[1:]),
         gather_args, extra=lambda make: (
             (make((3, 2)), 1, torch.empty((3, 0), dtype=torch.int64)),)),
    Case("index.embedding", lambda weight, indices, padding=-1: F.embedding(
        indices, weight, padding_idx=None if padding < 0 else padding),
        "nn.functional.embedding", FLOATS[:3], embedding_args,
        extra=embedding_extra),
    Case("index.sort", lambda x, dim, descending: torch.sort(
        x, stable=True, dim=dim, descending=descending), "sort", NUMBERS,
        sort_args, same=stable_order,
        extra=lambda make: ((make(s), 0, False) for s in ((0, 2), (3, 0)))),
    Case("index.topk", torch.topk, "topk", NUMBERS, topk_args, same=ordered,
         extra=lambda make: ((make(s), 1, 0, True) for s in ((2, 0), (4, 3)))),
    Case("shape.cat", torch.cat, "cat", ANY, cat_args, extra=lambda make: (
        ([make((2, 0)), make((2, 3))], 1), ([make((0, 3)), make((0, 3))], -1))),
    Case("shape.stack", lambda xs, dim=0: torch.stack(xs, dim), "stack", ANY),
    Case("shape.split_with_sizes", torch.split_with_sizes, "split_with_sizes",
         ANY, extra=lambda make: ((make((0, 4)), [1, 3], 1), (make((3,)), [3, 0]))),
    Case("shape.permute", torch.permute, "permute", ANY,
         extra=lambda make: ((make((2, 0, 3)), [2, 0, 1]), (make(()), []))),
    Case("shape.mT", lambda x: x.mT.clone(), "mT", ANY, matrix_args,
         extra=several((0, 3), (2, 3, 4))),
    Case("shape.expand", lambda x, size: x.expand(size).clone(), "expand", ANY,
         expand_args, extra=lambda make: (
             (make(()), [2, 3]), (make((0, 3)), [2, 0, 3]), (make((3, 1)), [2, 3, 4]))),
    Case("shape.slice", slice_reference, "slice", ANY,
         extra=lambda make: ((make((5, 4)), 0, -3), (make((5, 4)), 1, 3, 1),
                             (make((0, 4)), 0, 0, 9, 2), (make((7,)), 0, 1, 9, 3))),
    Case("shape.repeat_interleave", torch.repeat_interleave, "repeat_interleave",
         ANY, repeat_args, extra=lambda make: (
             (make((2, 3)), 3, 0), (make((4,)), 1, 0), (make((0, 2)), 2, -1))),
    Case("shape.flip", torch.flip, "flip", ANY,
         extra=lambda make: ((make((2, 3)), []), (make((2, 3)), [0, -1]))),
    Case("shape.roll", torch.roll, "roll", ANY, roll_args),
    Case("shape.tril", torch.tril, "tril", ANY, inplace="tril_",
         extra=several((0, 3), (3, 0), (2, 0, 4))),
    Case("shape.diagonal", lambda x, offset: torch.diagonal(
        x, offset, -2, -1).clone(), "diagonal", ANY, diagonal_args, grad=False,
        extra=lambda make: ((make((2, 3, 4)), 1), (make((0, 4)), 0),
                            (make((3, 4)), 9))),
    Case("shape.diag_embed", torch.diag_embed, "diag_embed", ANY,
         embedded_diagonal, extra=lambda make: ((make((0,)), 1), (make((2, 3)), -2)),
         grad=False),
    Case("shape.unfold", lambda x, d, size, step: x.unfold(d, size, step).clone(),
         "unfold", ANY, along,
         extra=lambda make: ((make((0, 4)), 1, 2, 1), (make((5,)), 0, 2, 3))),
    Case("shape.pixel_shuffle", F.pixel_shuffle, "nn.functional.pixel_shuffle",
         ANY, keyword_number, extra=lambda make: ((make((2, 4, 2, 3)), 2),
                                                  (make((8, 2, 3)), 2))),
    Case("shape.pixel_unshuffle", F.pixel_unshuffle,
         "nn.functional.pixel_unshuffle", ANY, keyword_number,
         extra=lambda make: ((make((2, 4, 6)), 2),)),
    Case("linear.outer", torch.outer, "outer", REALS, extra=linear_extra(
        ((3,), (4,)), ((0,), (2,)), ((2,), (0,)), ((1,), (1,)))),
    Case("linear.mm", torch.mm, "mm", FLOATS[:3], extra=linear_extra(
        ((3, 4), (4, 5)), ((2, 0), (0, 3)))),
    Case("linear.bmm", torch.bmm, "bmm", FLOATS[:2], extra=linear_extra(
        ((2, 3, 4), (2, 4, 5)), ((0, 3, 4), (0, 4, 5)), ((2, 3, 0), (2, 0, 5)))),
    Case("linear.addmm", torch.addmm, "addmm", FLOATS[:2], addmm_args,
         extra=linear_extra(((), (2, 3), (3, 4)), ((1, 4), (2, 3), (3, 4)),
                            ((2, 1), (2, 0), (0, 4)))),
    Case("linear.conv1d", F.conv1d, "nn.functional.conv1d", FLOATS[:2],
         conv_args, extra=lambda make: (
             (make((0, 2, 5)), make((3, 2, 2))),
             (make((2, 4, 7)), make((6, 2, 3)), make((6,)), 2, 1, 2, 2))),
    Case("linear.max_pool1d", lambda x, size, stride=None, padding=0, dilation=1:
         F.max_pool1d(x, size, stride, padding, dilation, return_indices=True),
         "nn.functional.max_pool1d", FLOATS[:2], pool_args,
         extra=lambda make: ((make((0, 2, 5)), 2), (make((2, 7)), 3, 2, 1, 2))),
]
BY_NAME = [pytest.param(case, id=case.ours) for case in CASES]


# --- Samples ---------------------------------------------------------------------------


def infos() -> dict[tuple[str, str], Any]:
    return {(info.name, info.variant_test_name): info for info in op_db}


INFOS = infos()


def op_db_calls(case: Case, dtype: torch.dtype, requires_grad: bool,
                skipped: Counter[str]) -> Iterator[Call]:
    info = INFOS[case.name, case.variant]
    if dtype not in info.dtypes:
        return
    samples = list(info.sample_inputs("cpu", dtype, requires_grad=requires_grad))
    step = -(-len(samples) // SAMPLES_MAX)
    skipped["one of many alike"] += len(samples) - len(samples[::step])
    for sample in samples[::step]:
        try:
            yield case.adapt(sample.input, *sample.args, **sample.kwargs)
        except SkipSample as why:
            skipped[str(why)] += 1


def calls(case: Case, dtype: torch.dtype, requires_grad: bool = False,
          skipped: Counter[str] | None = None) -> Iterator[Call]:
    """`skipped` counts what is left out, by reason."""
    torch.manual_seed(0)

    def make(shape: tuple[int, ...]) -> torch.Tensor:
        low, high = (-9, 9) if dtype != torch.uint8 else (0, 9)
        return torch.testing.make_tensor(
            shape, dtype=dtype, device="cpu", low=low, high=high,
            requires_grad=requires_grad)

    if case.name:
        yield from op_db_calls(case, dtype, requires_grad,
                               Counter() if skipped is None else skipped)
    for args in case.extra(make):
        yield args, {}


def again(t: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    return t.requires_grad_(like.requires_grad)


def strided(t: torch.Tensor) -> torch.Tensor:
    wide = torch.zeros(*t.shape, 2, dtype=t.dtype)
    wide[..., 0] = t.detach()
    return again(wide[..., 0], t)


def turned(t: torch.Tensor) -> torch.Tensor:
    if t.dim() < 2:
        return t
    return again(t.detach().mT.contiguous().mT, t)


def at_offset(t: torch.Tensor) -> torch.Tensor:
    long = torch.zeros(t.numel() + 3, dtype=t.dtype)
    long[3:] = t.detach().reshape(-1)
    return again(long[3:].view(t.shape), t)


LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "as it came": lambda t: t, "strided": strided, "transposed": turned,
    "offset": at_offset,
}


def laid_out(call: Call, layout: str) -> Call:
    args, kwargs = call
    return pytree.tree_map_only(torch.Tensor, LAYOUTS[layout], args), kwargs


def count(case: Case, layout: str, args: Any) -> None:
    tensors = [t for t in pytree.tree_leaves(args) if isinstance(t, torch.Tensor)]
    case.counts[layout] += 1
    case.counts["empty"] += any(t.numel() == 0 for t in tensors)
    case.counts["0-dim"] += any(t.dim() == 0 for t in tensors)
    case.counts["broadcast"] += len({t.shape for t in tensors}) > 1


@pytest.fixture(scope="module")
def modules(build: Any) -> Any:
    import opgraft

    names = ("pointwise", "reduce", "index", "shape", "linear", "write")
    return {n: opgraft.load(build(f"tests/ops/{n}.c")) for n in names}


def function_of(modules: Any, ours: str) -> Any:
    module, name = ours.split(".")
    return getattr(modules[module], name)


def dispatcher_form(modules: Any, ours: str) -> Any:
    module, name = ours.split(".")
    base, _, overload = name.partition("_") if name in OVERLOADS else (name, "", "")
    packet = getattr(getattr(torch.ops, modules[module].namespace), base)
    return getattr(packet, overload or "default")


OVERLOADS = {"sum_keep", "pow_Scalar"}


# --- Values ------------------------------------------------------------------------------


def compare(case: Case, found: Any, wanted: Any, args: Any) -> None:
    if case.same is not None:
        case.same(found, wanted, args)
        return
    found, wanted = pytree.tree_leaves(found), pytree.tree_leaves(wanted)
    near: dict[str, Any] = {}
    if case.tolerance and wanted[0].dtype in (BF16, F16):
        near = {"atol": case.tolerance, "rtol": 0.016}
    torch.testing.assert_close(found, wanted, equal_nan=True, **near)


@pytest.mark.parametrize("case", BY_NAME)
def test_values(modules: Any, case: Case) -> None:
    for dtype in case.types:
        for call in calls(case, dtype, skipped=case.skipped):
            for layout in LAYOUTS:
                args, kwargs = laid_out(call, layout)
                wanted = case.reference(*args, **kwargs)
                found = function_of(modules, case.ours)(*args, **kwargs)
                compare(case, found, wanted, args)
                count(case, layout, args)
            found = dispatcher_form(modules, case.ours)(*args, **kwargs)
            compare(case, found, wanted, args)
    assert case.counts["as it came"] >= 3
    assert case.counts["empty"] >= 1


def has_out_form(modules: Any, case: Case) -> bool:
    module, name = case.ours.split(".")
    space = getattr(torch.ops, modules[module].namespace)
    return name not in OVERLOADS and "out" in getattr(space, name).overloads()


@pytest.mark.parametrize("case", BY_NAME)
def test_out_form(modules: Any, case: Case) -> None:
    if not has_out_form(modules, case):
        assert case.ours in WITHOUT_OUT
        return
    for args, kwargs in calls(case, case.types[0]):
        wanted = case.reference(*args, **kwargs)
        outs = pytree.tree_map_only(torch.Tensor, torch.empty_like, wanted)
        outs = tuple(outs) if isinstance(outs, (list, tuple)) else outs
        found = function_of(modules, case.ours)(*args, out=outs, **kwargs)
        compare(case, outs, wanted, args)
        assert pytree.tree_leaves(found)[0] is pytree.tree_leaves(outs)[0]


# Overloads have no further one, data-dependent and list results no size to give.
WITHOUT_OUT = {"reduce.sum_keep", "pointwise.pow_Scalar", "reduce.bincount",
               "shape.split_with_sizes"}


@pytest.mark.parametrize("case", [p for p in BY_NAME if p.values[0].inplace])
def test_inplace_form(modules: Any, case: Case) -> None:
    ran = 0
    module = case.ours.split(".")[0]
    for dtype in case.types:
        for call in calls(case, dtype):
            for layout in LAYOUTS:
                (x, *rest), kwargs = laid_out(call, layout)
                wanted = case.reference(x, *rest, **kwargs)
                if wanted.shape != x.shape or wanted.dtype != x.dtype:
                    continue
                x = LAYOUTS[layout](x.clone())
                version = x._version
                found = getattr(modules[module], case.inplace)(x, *rest, **kwargs)
                assert found is x and x._version == version + 1
                compare(case, x, wanted, (x, *rest))
                ran += 1
    assert ran >= 8


# --- Gradients -----------------------------------------------------------------------------


def gradients(op: Any, args: Any, kwargs: Any) -> list[Any]:
    inputs = [t for t in pytree.tree_leaves(args)
              if isinstance(t, torch.Tensor) and t.requires_grad]
    results = [t for t in pytree.tree_leaves(op(*args, **kwargs))
               if isinstance(t, torch.Tensor) and t.requires_grad]
    torch.manual_seed(1)
    cotangents = [torch.randn(r.shape, dtype=r.dtype) for r in results]
    return list(torch.autograd.grad(results, inputs, cotangents, allow_unused=True))


@pytest.mark.parametrize("case", [p for p in BY_NAME if p.values[0].grad])
def test_gradients(modules: Any, case: Case) -> None:
    for dtype in (F64, F32):
        for call in calls(case, dtype, requires_grad=True):
            for layout in ("as it came", "strided"):
                args, kwargs = laid_out(call, layout)
                if not any(t.requires_grad for t in pytree.tree_leaves(args)
                           if isinstance(t, torch.Tensor)):
                    continue
                wanted = gradients(case.reference, args, kwargs)
                for form in (function_of(modules, case.ours),
                             dispatcher_form(modules, case.ours)):
                    found = gradients(form, args, kwargs)
                    near = {} if dtype == F64 else {"atol": 1e-4, "rtol": 1e-4}
                    torch.testing.assert_close(found, wanted, equal_nan=True,
                                               **near)
                case.counts["with gradient"] += 1
    assert case.counts["with gradient"] >= 3


# --- opcheck ------------------------------------------------------------------------------

@pytest.mark.parametrize("case", BY_NAME)
def test_opcheck(modules: Any, case: Case) -> None:
    found = list(calls(case, case.types[0], requires_grad=case.grad))
    for call in (found[0], found[len(found) // 2]):
        args, kwargs = laid_out(call, "strided")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = torch.library.opcheck(
                dispatcher_form(modules, case.ours), args, kwargs)
        assert set(result.values()) == {"SUCCESS"}


# --- Without tensor arguments ---------------------------------------------------------------


def test_eye(modules: Any) -> None:
    ran = 0
    for dtype in (F32, torch.int64, torch.bool):
        for sample in INFOS["eye", ""].sample_inputs("cpu", dtype):
            kwargs = {k: v for k, v in sample.kwargs.items()
                      if k in ("dtype", "device")}
            args = (sample.input, *sample.args)
            wanted = torch.eye(*args, **kwargs)
            assert torch.equal(modules["write"].eye(*args, **kwargs), wanted)
            ran += 1
    assert ran > 50


def test_full(modules: Any) -> None:
    for dtype in (F32, BF16, torch.int64, torch.bool):
        for sample in INFOS["full", ""].sample_inputs("cpu", dtype):
            value = sample.args[0]
            wanted = torch.full(sample.input, value, dtype=dtype)
            found = modules["write"].full(list(sample.input), value, dtype=dtype)
            assert torch.equal(found, wanted) and found.dtype == dtype


def test_arange(modules: Any) -> None:
    ran = 0
    for dtype in (F32, torch.int64):
        for sample in INFOS["arange", ""].sample_inputs("cpu", dtype):
            args = (sample.input, *sample.args)
            if len(args) < 2 or not all(isinstance(a, int) for a in args):
                continue
            wanted = torch.arange(*args, dtype=dtype)
            assert torch.equal(modules["write"].arange(*args, dtype=dtype), wanted)
            ran += 1
    assert ran > 10


# --- Mutating operators: the arguments are compared after the call ------------------------------


def kv_reference(keys: Any, values: Any, k: Any, v: Any, lengths: Any) -> None:
    b = torch.arange(keys.shape[0]).view(-1, 1, 1)
    h = torch.arange(keys.shape[1]).view(1, -1, 1)
    rows = torch.tensor(lengths, dtype=torch.int64).view(-1, 1, 1) + torch.arange(k.shape[2])
    keys.index_put_((b, h, rows), k)
    values.index_put_((b, h, rows), v)


def sgd_reference(parameter: Any, momentum: Any, grad: Any, lr: float,
                  mu: float = 0.9) -> None:
    momentum.mul_(mu).add_(grad)
    parameter.sub_(lr * momentum)


def copy_calls(make: Make) -> Iterator[Any]:
    for a, b in (((3, 4), (4,)), ((2, 0), (1, 1)), ((), ()), ((2, 3, 4), (3, 1))):
        yield make(a), make(b)
        yield make(a), make(b).double()
    for sample in INFOS["fill", ""].sample_inputs("cpu", F32):
        yield sample.input, make(())


def fill_calls(make: Make) -> Iterator[Any]:
    for value in (2, True, 0.0):
        yield from ((make(s), value) for s in ((), (0, 3), (3, 4)))


def index_put_calls(make: Make) -> Iterator[Any]:
    for sample in INFOS["index_put", ""].sample_inputs("cpu", F32):
        if any(i.dtype == torch.bool for i in sample.args[0]):
            continue
        accumulate = sample.kwargs["accumulate"]
        yield sample.input, list(sample.args[0]), sample.args[1], accumulate
    yield make((4, 3)), [torch.tensor([[0], [2]]), torch.tensor([1, 2])], make((2, 2)), False
    yield make((4, 3)), [torch.tensor([-1, 2])], make(()), False
    yield make((4, 0)), [torch.tensor([1])], make((1, 0)), False
    yield make((3,)), [torch.tensor([1, 1, 1])], make((3,)), True


def kv_calls(make: Make) -> Iterator[Any]:
    for b, h, capacity, width, new in ((2, 3, 8, 4, 2), (1, 1, 1, 1, 1),
                                       (3, 2, 5, 0, 2), (2, 2, 6, 3, 0),
                                       (0, 2, 4, 3, 1)):
        lengths = [(3 * n) % (capacity - new + 1) for n in range(b)]
        cache, fresh = (b, h, capacity, width), (b, h, new, width)
        yield make(cache), make(cache), make(fresh), make(fresh), lengths


def sgd_calls(make: Make) -> Iterator[Any]:
    for shape in ((), (0, 3), (3, 4), (2, 3, 4)):
        yield make(shape), make(shape), make(shape), 0.1


def foreach_calls(make: Make) -> Iterator[Any]:
    shapes = [(), (0, 3), (3, 4)]
    for n in range(1, 4):  # the dispatcher refuses a call without any tensor
        yield [make(s) for s in shapes[:n]], [make(s) for s in shapes[:n]], 2.5


MUTATING = [
    ("fill_", lambda x, value: x.fill_(value), fill_calls),
    ("copy_", lambda x, source: x.copy_(source), copy_calls),
    ("sgd_step_", sgd_reference, sgd_calls),
    ("foreach_add_", lambda xs, ys, scale: torch._foreach_add_(
        xs, ys, alpha=scale), foreach_calls),
    ("index_put_", lambda x, indices, values, accumulate: x.index_put_(
        indices, values, accumulate), index_put_calls),
    ("kv_write_", kv_reference, kv_calls),
]
RETURNS_ITS_ARGUMENT = {"fill_", "copy_", "index_put_"}
MUTATED = {"sgd_step_": 2, "kv_write_": 2}


def mutating_file(modules: Any, name: str) -> Any:
    return modules["index" if name in ("index_put_", "kv_write_") else "write"]


def f32(shape: tuple[int, ...]) -> torch.Tensor:
    return torch.testing.make_tensor(shape, dtype=F32, device="cpu")


@pytest.mark.parametrize("name,reference,make_calls", MUTATING,
                         ids=[row[0] for row in MUTATING])
def test_mutation(modules: Any, name: str, reference: Any, make_calls: Any) -> None:
    torch.manual_seed(0)
    module = mutating_file(modules, name)
    forms = [getattr(module, name),
             getattr(getattr(torch.ops, module.namespace), name)]
    for args in make_calls(f32):
        for layout in LAYOUTS:
            wanted = copied(args, layout)
            reference(*wanted)
            for form in forms:
                given = copied(args, layout)
                returned = form(*given)
                torch.testing.assert_close(
                    tensors_of(given), tensors_of(wanted), equal_nan=True)
                if name in RETURNS_ITS_ARGUMENT and form is forms[0]:
                    assert returned is given[0]
                for t in tensors_of(given[:MUTATED.get(name, 1)]):
                    assert t._version > 0


def copied(args: Any, layout: str) -> Any:
    """Copies whose version counters stand at 0."""
    def one(t: torch.Tensor) -> torch.Tensor:
        return LAYOUTS[layout](t.detach().clone()).detach()

    return pytree.tree_map_only(torch.Tensor, lambda t: fresh(one(t)), args)


def fresh(t: torch.Tensor) -> torch.Tensor:
    return torch.from_dlpack(t) if t._version else t


def tensors_of(args: Any) -> list[torch.Tensor]:
    return [t for t in pytree.tree_leaves(args) if isinstance(t, torch.Tensor)]


@pytest.mark.parametrize("name,reference,make_calls", MUTATING,
                         ids=[row[0] for row in MUTATING])
def test_opcheck_of_mutation(modules: Any, name: str, reference: Any,
                             make_calls: Any) -> None:
    torch.manual_seed(0)
    module = mutating_file(modules, name)
    op = getattr(getattr(torch.ops, module.namespace), name).default
    found = list(make_calls(f32))
    for args in (found[0], found[len(found) // 2]):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = torch.library.opcheck(op, copied(args, "strided"))
        assert set(result.values()) == {"SUCCESS"}


def test_a_return_that_is_the_argument_compiles(modules: Any) -> None:
    fill = modules["write"].fill_

    def f(x: torch.Tensor) -> torch.Tensor:
        return fill(x, 3.0) + x

    x = torch.zeros(4)
    found = torch.compile(f, backend="aot_eager", fullgraph=True)(x)
    assert torch.equal(found, torch.full((4,), 6.0))
    assert torch.equal(x, torch.full((4,), 3.0))


# --- Counts -------------------------------------------------------------------------------


def test_counts(capsys: pytest.CaptureFixture[str]) -> None:
    """Prints what ran and what did not; at least 25 operators ran."""
    ran = [case for case in CASES if case.counts["as it came"]]
    if len(ran) < len(CASES):
        pytest.skip("counts are of a run of the whole file")
    columns = ["as it came", "strided", "transposed", "offset", "empty", "0-dim",
               "broadcast", "with gradient"]
    with capsys.disabled():
        print(f"\n{'operator':26}" + "".join(f"{c:>14}" for c in columns)
              + f"{'skipped':>9}")
        for case in ran:
            print(f"{case.ours:26}"
                  + "".join(f"{case.counts[c]:14}" for c in columns)
                  + f"{sum(case.skipped.values()):9}")
            for why, times in sorted(case.skipped.items()):
                if times:
                    print(f"{'':28}{times:4} skipped: {why}")
        print(f"{len(ran) + len(MUTATING) + 3} operators ran, "
              f"{sum(c.counts['as it came'] for c in ran)} samples of op_db and "
              f"generated ones in {len(LAYOUTS)} layouts, "
              f"{sum(sum(c.skipped.values()) for c in ran)} skipped")
    assert len(ran) >= 25
