# SPDX-License-Identifier: Apache-2.0
"""PyTorch's own samples of its operators, on the device and on the CPU: equal
results, gradients, views and in-place forms, without a race."""

from __future__ import annotations

from typing import Any, Iterator

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db

SAMPLES = 3
PARTS = 6
RIGHT_LEAST = 640  # of all parts together
# Operator -> why its results are not compared.
LEFT_OUT = {
    **dict.fromkeys(
        ["empty", "empty_like", "empty_permuted", "empty_strided", "new_empty",
         "new_empty_strided"], "memory that nobody wrote"),
    **dict.fromkeys(
        ["jiterator_unary", "jiterator_binary",
         "jiterator_4inputs_with_extra_args", "jiterator_binary_return_by_ref",
         "jiterator_2inputs_2outputs"], "a compiler of GPUs"),
    **dict.fromkeys(
        ["sparse.sampled_addmm", "sparse.mm", "to_sparse"],
        "a device's tensors are strided"),
    "as_strided": "the sample's view reaches into memory that is not copied",
    "chalf": "no complex numbers of 32 bits",
    "tensor_split": "the sample's indices must be on the CPU",
    "to": "the sample asks for pinned memory",
}
_right = 0


def moved(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach().npu().requires_grad_(value.requires_grad)
    if isinstance(value, (list, tuple)):
        return type(value)(map(moved, value))
    if isinstance(value, dict):
        return {k: "npu" if k == "device" else moved(v)
                for k, v in value.items()}
    return value


def tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from tensors(each)


def compare(found: Any, wanted: Any, where: str) -> None:
    pairs = list(zip(tensors(found), tensors(wanted), strict=True))
    for a, b in pairs:
        assert a.device.type == "npu", where
        assert a.is_conj() == b.is_conj() and a.is_neg() == b.is_neg(), where
        torch.testing.assert_close(a.detach().cpu(), b.detach(),
                                   equal_nan=True, msg=lambda m: f"{where}: {m}")


def compare_gradients(found: Any, wanted: Any, given: Any, sample: Any,
                      where: str) -> None:
    outs = [(a, b) for a, b in zip(tensors(found), tensors(wanted), strict=True)
            if b.requires_grad and b.is_floating_point()]
    ins = [(a, b) for a, b in zip(tensors(given), tensors(sample), strict=True)
           if b.requires_grad]
    if not outs or not ins:
        return
    grads = [torch.autograd.grad([o[side].sum() for o in outs],
                                 [i[side] for i in ins], allow_unused=True)
             for side in (0, 1)]
    for a, b in zip(*grads, strict=True):
        assert (a is None) == (b is None), where
        if a is not None:
            compare(a, b, f"{where}, gradient")


def compare_in_place(op: Any, s: Any, where: str) -> None:
    """The in-place form, where the CPU takes this sample in it."""
    form = op.inplace_variant
    if form is None or not isinstance(s.input, torch.Tensor):
        return
    own, device = s.input.detach().clone(), s.input.detach().clone().npu()
    args, kwargs = moved(s.args), moved(s.kwargs)
    with torch.no_grad():
        try:
            torch.manual_seed(0)
            form(own, *s.args, **s.kwargs)
        except (RuntimeError, TypeError, IndexError):
            return
        torch.manual_seed(0)
        assert form(device, *args, **kwargs) is device, where
    compare(device, own, f"{where}, in place")


def check(op: Any, dtype: torch.dtype) -> None:
    has_grad = op.supports_autograd and dtype.is_floating_point
    samples = op.sample_inputs("cpu", dtype, requires_grad=has_grad)
    for k, s in zip(range(SAMPLES), samples):
        where = f"{op.full_name}, sample {k}"
        given = moved(s.input), moved(s.args), moved(s.kwargs)
        torch.manual_seed(0)
        wanted = op(s.input, *s.args, **s.kwargs)
        torch.manual_seed(0)
        found = op(given[0], *given[1], **given[2])
        compare(found, wanted, where)
        for a, b in zip(tensors(found), tensors(wanted), strict=True):
            if b._base is not None and b._base is s.input:
                assert a._base is given[0], f"{where}: no view"
        if has_grad:
            compare_gradients(found, wanted, given[:2], (s.input, s.args), where)
        compare_in_place(op, s, where)


def check_each(ops: list[Any]) -> int:
    """How many are right; fails for all of the others together."""
    right, wrong = 0, []
    for op in ops:
        types = [t for t in (torch.float32, torch.int64, torch.bool)
                 if t in op.supported_dtypes("cpu")]
        if op.name in LEFT_OUT or not types:
            continue
        try:
            check(op, types[0])
        except Exception as error:  # all of them, not the first
            wrong.append(f"{op.full_name}: {type(error).__name__}: {error}")
        else:
            right += 1
    assert wrong == []
    return right


@pytest.mark.full
def test_some_samples_of_torch(npu: Any) -> None:
    assert check_each(op_db[3::12]) > 0


@pytest.mark.full
@pytest.mark.parametrize("part", range(PARTS))
def test_samples_of_torch(npu: Any, part: int) -> None:
    global _right
    _right += check_each(op_db[part::PARTS])
    if part == PARTS - 1:
        print(f"{_right} entries of op_db are right")


@pytest.mark.full
def test_most_were_compared(request: pytest.FixtureRequest) -> None:
    names = {item.name for item in request.session.items}
    if len({n for n in names if n.startswith("test_samples_of_torch")}) < PARTS:
        pytest.skip("not all parts run in this session")
    assert _right >= RIGHT_LEAST
