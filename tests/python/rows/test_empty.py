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
from functorch.compile import aot_function
from recorded import WANTED, Call, op_samples
from refusing import Compiled, of_tensors
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_flatten

# ATen's own backward of no rows ends the process, and its kernel of integers
# leaves the shape of nothing as it was, where that of floats does not.
LEFT_OUT = ("nn.functional.pdist", "nn.functional.pixel_unshuffle")
INFOS = [i for i in op_db if f"{i.aten_name}.default" not in WANTED
         and i.name not in LEFT_OUT]
PARTS = 64
TYPES = (torch.float32, torch.complex64, torch.int64)


def is_strided(tree: Any) -> bool:
    return all(x.layout is torch.strided for x in tree_flatten(tree)[0]
               if isinstance(x, torch.Tensor))


def shapes(run: Any, call: Call) -> list[Any]:
    """Raises TypeError for sparse results: autograd does not take them."""
    def fresh(x: Any) -> Any:
        if not isinstance(x, torch.Tensor):
            return x
        grad = x.is_floating_point() or x.is_complex()
        return x.detach().clone().requires_grad_(grad)

    call = call.with_leaves(fresh)
    found = [x for x in tree_flatten(run(call))[0]
             if isinstance(x, torch.Tensor)]
    if not is_strided(found):
        raise TypeError("a sparse result")
    of = [x.sum().abs() for x in found if x.requires_grad]
    if of:
        sum(of).backward()
    return [(x.dtype, x.shape) for x in found] + [
        None if x.grad is None else x.grad.shape
        for x in tree_flatten((call.args, call.kwargs))[0]
        if isinstance(x, torch.Tensor)]


def told(run: Any, call: Call) -> list[Any] | str:
    try:
        return shapes(run, call)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def captured(call: Call) -> Any:
    """Through PyTorch's own capture, which compiles nothing."""
    run, tensors = of_tensors(call)
    return aot_function(run, fw_compiler=lambda gm, _: gm)(*tensors)


def check(info: Any, dtype: torch.dtype, samples: int, seed: int
          ) -> tuple[int, list[str]]:
    """How many calls eager takes, and what differs."""
    count, wrong = 0, []
    for sample in op_samples(info, dtype, samples):
        call = Call(info.op, (sample.input, *sample.args), sample.kwargs)
        if not is_strided((call.args, call.kwargs)):
            continue
        for what, other in borders(call, random.Random(seed)):
            if not what.endswith("of size 0"):
                continue
            wanted = told(lambda c: c.target(*c.args, **c.kwargs), other)
            if isinstance(wanted, str):
                continue
            count += 1
            found = told(Compiled("reduce-overhead"), other)
            if found != wanted and not (isinstance(found, str) and isinstance(
                    told(captured, other), str)):
                wrong.append(f"{info.name}, {dtype}, {what}: eager {wanted}, "
                             f"ours {found}")
    return count, wrong


def sweep(infos: list[Any], samples: int, seed: int = 0) -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [check(info, dtype, samples, seed) for info in infos
                 for dtype in TYPES if dtype in info.dtypes]
    wrong = [text for _, texts in found for text in texts]
    assert not wrong, "\n".join(wrong)
    return sum(n for n, _ in found)


def test_gradient_of_lu_solve() -> None:
    lu, pivots = torch.linalg.lu_factor(torch.randn(0, 3, 3))
    call = Call(torch.linalg.lu_solve, (lu, pivots, torch.randn(0, 3, 2)), {})
    wanted = shapes(lambda c: c.target(*c.args, **c.kwargs), call)
    assert shapes(Compiled("reduce-overhead"), call) == wanted


def test_some_operators_of_the_host() -> None:
    infos = [i for i in INFOS if i.name in ("sinc", "erfinv", "cholesky")]
    assert sweep(infos + random.Random(1).sample(INFOS, 8), 1) > 5


@pytest.mark.full
def test_many(rounds: Any) -> None:
    """Every operator in so many rounds."""
    rounds(lambda seed: sweep(INFOS[seed % PARTS::PARTS], 3, seed), PARTS)
