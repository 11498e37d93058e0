# SPDX-License-Identifier: Apache-2.0
"""Operators that the host runs, on tensors without elements: results and
gradients have eager's shapes."""

from __future__ import annotations

import random
import warnings
from typing import Any

import pytest
import torch
from borders import borders
from recorded import WANTED, Call, op_samples
from refusing import Compiled
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
)
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_flatten

INFOS = [i for i in op_db if f"{i.aten_name}.default" not in WANTED]
TYPES = (torch.float32, torch.complex64, torch.int64)


def shapes(run: Any, call: Call) -> list[Any]:
    def fresh(x: Any) -> Any:
        if not isinstance(x, torch.Tensor):
            return x
        grad = x.is_floating_point() or x.is_complex()
        return x.detach().clone().requires_grad_(grad)

    call = call.with_leaves(fresh)
    found = [x for x in tree_flatten(run(call))[0]
             if isinstance(x, torch.Tensor)]
    of = [x.sum().abs() for x in found if x.requires_grad]
    if of:
        sum(of).backward()
    return [(x.dtype, x.shape) for x in found] + [
        None if x.grad is None else x.grad.shape
        for x in tree_flatten((call.args, call.kwargs))[0]
        if isinstance(x, torch.Tensor)]


def check(info: Any, dtype: torch.dtype, samples: int) -> int:
    """How many calls eager takes."""
    count = 0
    for sample in op_samples(info, dtype, samples):
        call = Call(info.op, (sample.input, *sample.args), sample.kwargs)
        for what, other in borders(call, random.Random(0)):
            if not what.endswith("of size 0"):
                continue
            try:
                wanted = shapes(lambda c: c.target(*c.args, **c.kwargs), other)
            except Exception:
                continue
            try:
                found = shapes(Compiled("reduce-overhead"), other)
            except (DataDependentOutputException, DynamicOutputShapeException):
                continue
            count += 1
            assert found == wanted, f"{info.name}, {what}"
    return count


def sweep(infos: list[Any], samples: int) -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return sum(check(info, dtype, samples) for info in infos
                   for dtype in TYPES if dtype in info.dtypes)


def test_gradient_of_lu_solve() -> None:
    lu, pivots = torch.linalg.lu_factor(torch.randn(0, 3, 3))
    call = Call(torch.linalg.lu_solve, (lu, pivots, torch.randn(0, 3, 2)), {})
    wanted = shapes(lambda c: c.target(*c.args, **c.kwargs), call)
    assert shapes(Compiled("reduce-overhead"), call) == wanted


def test_some_operators_of_the_host() -> None:
    infos = [i for i in INFOS if i.name in ("sinc", "erfinv", "cholesky")]
    assert sweep(infos + random.Random(1).sample(INFOS, 8), 1) > 5


@pytest.mark.full
def test_operators_of_the_host() -> None:
    assert sweep(INFOS, 3) > 200
