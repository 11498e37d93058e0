# SPDX-License-Identifier: Apache-2.0
"""Rows of src/import/aten.def whose operator takes a `dtype`: of each type of
operand, in each type of result, beside eager."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any, Callable

import pytest
import torch

import opgraft  # noqa: F401

T = torch.Tensor
TABLE = Path(__file__).resolve().parents[3] / "src/import/aten.def"
TYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16,
         torch.int8, torch.int32, torch.int64, torch.uint8, torch.bool]
OPERANDS = [*TYPES, torch.uint64]
MODES = ["default", "max-autotune"]
# What an argument without a default is, by its type.
GIVEN: dict[str, Any] = {
    "int": 1, "List[int]": [1], "Optional[List[int]]": [1], "number": 2}


def operators() -> dict[str, Any]:
    found = {}
    for name in re.findall(r'^OG_ATEN\w*\("([^"]+)"', TABLE.read_text(), re.M):
        packet, _, overload = name.partition(".")
        if packet == "prims":
            continue
        op = getattr(getattr(torch.ops.aten, packet), overload)
        arguments = op._schema.arguments
        if (arguments and str(arguments[0].type) == "Tensor"
                and not packet.startswith(("new_empty", "empty", "view"))
                and any(a.name == "dtype" for a in arguments)):
            found[name] = op
    return found


OPERATORS = operators()


def function(op: Any, types: list[torch.dtype]) -> Callable[[T], list[T]]:
    given = [GIVEN[str(a.type)] for a in op._schema.arguments[1:]
             if not a.has_default_value() and not a.kwarg_only]

    def run(x: T) -> list[T]:
        return [op(x, *given, dtype=dtype) for dtype in types]

    return run


def accepts(op: Any, x: T, dtype: torch.dtype) -> bool:
    try:
        function(op, [dtype])(x)
    except RuntimeError:  # NotImplementedError, too
        return False
    return True


def check(name: str, operand: torch.dtype, mode: str, seed: int) -> int:
    draw = torch.Generator().manual_seed(seed)
    x = torch.rand(3, 5, generator=draw)
    # Fractions, and sums that 16 bits hold; half of u64's are none of int64's.
    x = (((x - 0.5) * 2**62).long().view(operand)
         if operand is torch.uint64 else (x * 4).to(operand))
    op = OPERATORS[name]
    types = [t for t in TYPES if accepts(op, x, t)]
    if not types:
        return 0
    f = function(op, types)
    torch._dynamo.reset()
    found = torch.compile(f, backend="opgraft", fullgraph=True, mode=mode)(x)
    torch.testing.assert_close(found, f(x))
    return len(types)


def test_there_are_such_rows() -> None:
    assert {"sum.dim_IntList", "prod.default", "cumsum.default",
            "full_like.default"} <= set(OPERATORS)


@pytest.mark.parametrize("name", OPERATORS)
def test_result_types(name: str) -> None:
    draw = random.Random(name)
    check(name, torch.uint64, draw.choice(MODES), 1)
    assert check(name, draw.choice(TYPES[:4]), draw.choice(MODES), 1) > 0


@pytest.mark.full
@pytest.mark.parametrize("operand", OPERANDS, ids=str)
def test_many(operand: torch.dtype, portion: float) -> None:
    count = sum(check(name, operand, mode, seed)
                for seed in range(2, 3 + int(3 * portion))
                for name in OPERATORS for mode in MODES)
    print(f"{operand}: {count} results")
