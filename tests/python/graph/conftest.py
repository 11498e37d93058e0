# SPDX-License-Identifier: Apache-2.0
"""What the tests of the compiler backend share."""

from __future__ import annotations

from typing import Any, Callable

import pytest
import torch

import opgraft


@pytest.fixture(autouse=True)
def fresh_dynamo() -> Any:
    torch._dynamo.reset()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()


@pytest.fixture
def native() -> Callable[[Any], None]:
    """Fails on a compiled function with a node that fell back."""

    def one(c: Any) -> None:
        found = opgraft.stats(c)
        assert found.graphs and not found.fallbacks, str(found)

    return one
