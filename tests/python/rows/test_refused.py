# SPDX-License-Identifier: Apache-2.0
"""Numbers that ATen refuses are refused in a compiled graph too."""

from __future__ import annotations

from typing import Callable

import pytest
import torch

REFUSED: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "negative_power": lambda x: x ** -2,
    "full": lambda x: torch.full_like(x, 70_000),
    "alpha": lambda x: torch.add(x, x, alpha=70_000),
    "clamp": lambda x: x.clamp(0, 70_000),
    "masked_fill": lambda x: x.masked_fill(x > 2, 70_000),
}


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16], ids=str)
@pytest.mark.parametrize("name", REFUSED)
def test_a_number_that_aten_refuses_is_an_error(
    name: str, dtype: torch.dtype
) -> None:
    torch._dynamo.reset()
    x = torch.arange(1, 5).to(dtype)
    compiled = torch.compile(REFUSED[name], backend="opgraft")
    for f in (REFUSED[name], compiled):
        with pytest.raises(RuntimeError, match="overflow|negative"):
            f(x)
