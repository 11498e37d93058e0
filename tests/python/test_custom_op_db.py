# SPDX-License-Identifier: Apache-2.0
"""PyTorch's own custom operators (torch.testing._internal.custom_op_db), built
in C from tests/ops/custom_op_db.c and run on that file's own samples.

Everything is compared with the operator there: values, gradients, vmap. Each
operator must also pass gradcheck and torch.library.opcheck.
"""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

custom_op_db = pytest.importorskip(
    "torch.testing._internal.custom_op_db"
).custom_op_db

NAMES = {
    "NumpyCubeCustomOp": "numpy_cube",
    "NumpyMulCustomOp": "numpy_mul",
    "NumpyMulScalarCustomOp": "numpy_mul_scalar",
    "NumpySortCustomOp": "numpy_sort",
    "NumpyTakeCustomOp": "numpy_take",
    "NumpyNonzeroCustomOp": "numpy_nonzero",
    "NumpyNMSCustomOp": "numpy_nms",
    "NumpyViewCopyCustomOp": "numpy_view_copy",
    "NumpyCatCustomOp": "numpy_cat",
    "NumpySplitCopyCustomOp": "numpy_split_copy",
    "NumpySplitCopyWithIntCustomOp": "numpy_split_copy_with_int",
}
INFOS = [pytest.param(info, id=NAMES[info.name]) for info in custom_op_db]
WITH_GRADIENT = [pytest.param(i, id=NAMES[i.name]) for i in custom_op_db
                 if i.supports_autograd]
DATA_DEPENDENT = {"numpy_nonzero", "numpy_nms"}
INTEGERS = {torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64}
# Types that we do not declare. In cube and mul_scalar NumPy's result has another
# type than their own fake's (bool ** 2, integer * 3.14). In nms the boxes' own
# type wraps or rounds there, and equal scores stand in no defined order.
REFUSED = {
    "numpy_cube": {torch.bool},
    "numpy_mul_scalar": INTEGERS | {torch.bool},
    "numpy_nms": INTEGERS | {torch.bool, torch.float16},
}
# Their sampler multiplies a bool tensor by an integer mask in place.
NO_SAMPLES = {("numpy_nonzero", torch.bool)}


@pytest.fixture(scope="module")
def module(build: Any) -> Any:
    import opgraft

    return opgraft.load(build("tests/ops/custom_op_db.c"))


def ours(module: Any, info: Any) -> Any:
    return getattr(module, NAMES[info.name])


def dispatcher_form(info: Any) -> Any:
    return getattr(torch.ops.custom_op_db, NAMES[info.name]).default


def samples(info: Any, dtype: torch.dtype, requires_grad: bool = False) -> list[Any]:
    """(args, kwargs) of the file's own samples, and of the same values in
    other layouts: strided, and at an offset."""
    torch.manual_seed(0)
    found = []
    for sample in info.sample_inputs("cpu", dtype, requires_grad=requires_grad):
        args = (sample.input, *sample.args)
        found += [(args, sample.kwargs),
                  (pytree.tree_map_only(torch.Tensor, strided, args), sample.kwargs),
                  (pytree.tree_map_only(torch.Tensor, at_offset, args), sample.kwargs)]
    return found


def strided(t: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        wide = torch.zeros(*t.shape, 2, dtype=t.dtype)
        wide[..., 0] = t
    return wide[..., 0].requires_grad_(t.requires_grad)


def at_offset(t: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        long = torch.zeros(t.numel() + 3, dtype=t.dtype)
        long[3:] = t.reshape(-1)
    return long[3:].view(t.shape).requires_grad_(t.requires_grad)


def leaves(value: Any) -> list[Any]:
    return pytree.tree_leaves(value)


def inputs_of(args: Any) -> list[torch.Tensor]:
    return [t for t in leaves(args)
            if isinstance(t, torch.Tensor) and t.requires_grad]


def differentiable(result: Any) -> list[torch.Tensor]:
    return [t for t in leaves(result)
            if isinstance(t, torch.Tensor) and t.requires_grad]


def assert_same(found: Any, wanted: Any, args: Any, name: str) -> None:
    """Equal results; of a sort with equal entries any right order."""
    found, wanted = leaves(found), leaves(wanted)
    assert len(found) == len(wanted)
    if name == "numpy_sort":
        x, dim = args
        values, order, inverse = found
        assert torch.equal(values, wanted[0])
        assert torch.equal(x.gather(dim, order), values)
        assert torch.equal(order.argsort(dim), inverse)
        if not values.diff(dim=dim).eq(0).any():
            assert torch.equal(order, wanted[1])
        return
    for a, b in zip(found, wanted, strict=True):
        if isinstance(b, torch.Tensor):
            torch.testing.assert_close(a, b)
        else:
            assert a == b


def test_every_operator_is_there() -> None:
    assert {info.name for info in custom_op_db} == set(NAMES)


@pytest.mark.parametrize("info", INFOS)
def test_values(module: Any, info: Any) -> None:
    name, ran = NAMES[info.name], set()
    for dtype in info.dtypes:
        if (name, dtype) in NO_SAMPLES:
            continue
        refused = dtype in REFUSED.get(name, ())
        for args, kwargs in samples(info, dtype):
            if refused:
                with pytest.raises(RuntimeError, match="expected"):
                    ours(module, info)(*args, **kwargs)
                continue
            wanted = info.op(*args, **kwargs)
            for form in (ours(module, info), dispatcher_form(info)):
                assert_same(form(*args, **kwargs), wanted, args, name)
            ran.add(dtype)
    left = {dtype for other, dtype in NO_SAMPLES if other == name}
    assert ran == set(info.dtypes) - REFUSED.get(name, set()) - left


def gradients(op: Any, args: Any, kwargs: Any) -> list[torch.Tensor]:
    result = differentiable(op(*args, **kwargs))
    torch.manual_seed(1)
    cotangents = [torch.randn_like(r) for r in result]
    return list(torch.autograd.grad(result, inputs_of(args), cotangents))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("info", WITH_GRADIENT)
def test_gradients(module: Any, info: Any, dtype: torch.dtype) -> None:
    for args, kwargs in samples(info, dtype, requires_grad=True):
        wanted = gradients(info.op, args, kwargs)
        for form in (ours(module, info), dispatcher_form(info)):
            found = gradients(form, args, kwargs)
            torch.testing.assert_close(found, wanted)


def by_tensors(op: Any, args: Any, kwargs: Any) -> tuple[Any, list[torch.Tensor]]:
    """A function of the differentiable inputs alone, as gradcheck wants it."""
    flat, spec = pytree.tree_flatten(args)
    at = [i for i, t in enumerate(flat)
          if isinstance(t, torch.Tensor) and t.requires_grad]

    def call(*tensors: torch.Tensor) -> Any:
        values = list(flat)
        for i, tensor in zip(at, tensors, strict=True):
            values[i] = tensor
        result = op(*pytree.tree_unflatten(values, spec), **kwargs)
        return tuple(differentiable(result))

    return call, [flat[i] for i in at]


@pytest.mark.parametrize("info", WITH_GRADIENT)
def test_gradcheck(module: Any, info: Any) -> None:
    for args, kwargs in samples(info, torch.float64, requires_grad=True):
        for form in (ours(module, info), dispatcher_form(info)):
            call, tensors = by_tensors(form, args, kwargs)
            assert torch.autograd.gradcheck(call, tensors)
            assert torch.autograd.gradgradcheck(call, tensors)


@pytest.mark.parametrize("info", [p for p in INFOS if p.id not in DATA_DEPENDENT])
def test_vmap(module: Any, info: Any) -> None:
    name = NAMES[info.name]
    for args, kwargs in samples(info, torch.float32):
        flat, spec = pytree.tree_flatten(args)
        is_batched = [isinstance(t, torch.Tensor) for t in flat]
        for dim in (0, -1):
            batched = [
                torch.stack([t, t.flip(-1), t], dim) if b else t
                for t, b in zip(flat, is_batched, strict=True)
            ]
            in_dims = pytree.tree_unflatten(
                [dim if b else None for b in is_batched], spec)
            values = pytree.tree_unflatten(batched, spec)
            wanted = stacked(
                [info.op(*pytree.tree_unflatten(
                    [t.select(dim, n) if b else t
                     for t, b in zip(batched, is_batched, strict=True)], spec), **kwargs)
                 for n in range(3)])
            for form in (ours(module, info), dispatcher_form(info)):
                found = vmapped(form, in_dims, values, kwargs)
                torch.testing.assert_close(found, wanted)
            if dim == 0 and name not in THEIR_VMAP_FAILS:
                theirs = vmapped(info.op, in_dims, values, kwargs)
                torch.testing.assert_close(found, theirs)


# Its rule unpacks two dims into one name.
THEIR_VMAP_FAILS = {"numpy_cat"}


def vmapped(op: Any, in_dims: Any, values: Any, kwargs: Any) -> list[Any]:
    """The tensor results of vmap, whose function may return nothing else."""
    def call(*args: Any) -> Any:
        return [t for t in leaves(op(*args, **kwargs))
                if isinstance(t, torch.Tensor)]

    return torch.vmap(call, in_dims=in_dims)(*values)


def stacked(results: list[Any]) -> list[torch.Tensor]:
    columns = zip(*map(leaves, results), strict=True)
    return [torch.stack(entries) for entries in columns
            if isinstance(entries[0], torch.Tensor)]


@pytest.mark.parametrize("info", [p for p in INFOS if p.id in DATA_DEPENDENT])
def test_vmap_of_a_data_dependent_size_is_refused(module: Any, info: Any) -> None:
    args, kwargs = samples(info, torch.float32)[0]
    batched = [torch.stack([t, torch.zeros_like(t)])
               if isinstance(t, torch.Tensor) else t for t in args]
    in_dims = tuple(0 if isinstance(t, torch.Tensor) else None for t in args)
    for form in (ours(module, info), info.op):
        with pytest.raises(NotImplementedError):
            torch.vmap(form, in_dims=in_dims)(*batched, **kwargs)


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("info", INFOS)
def test_opcheck(module: Any, info: Any, requires_grad: bool) -> None:
    if requires_grad and not info.supports_autograd:
        requires_grad = False
    for args, kwargs in samples(info, torch.float32, requires_grad):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = torch.library.opcheck(dispatcher_form(info), args, kwargs)
        assert set(result.values()) == {"SUCCESS"}


def test_no_shape_rule_is_a_callback(module: Any) -> None:
    for description in module._descriptions.values():
        kinds = {rule["kind"] for rule in description.tables["shapes"]}
        assert "callback" not in kinds


def test_gradient_of_a_list_beside_an_empty_list(module: Any) -> None:
    """torch takes an empty list of integers for one of tensors."""
    grads, x = [torch.randn(3, 2, requires_grad=True)], torch.randn(3, 2)
    operator = torch.ops.custom_op_db.numpy_split_copy_backward
    operator(grads, x, [], 0).sum().backward()
    assert torch.equal(grads[0].grad, torch.ones(3, 2))
