# SPDX-License-Identifier: Apache-2.0
"""What the tests of the operator library share."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any, Callable

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def seed() -> None:
    """Errors are compared with torch's own on the same draw: of many draws, one
    finds torch's unusually small."""
    torch.manual_seed(1)


@pytest.fixture(scope="session")
def ops() -> Any:
    from opgraft import ops as library

    return library


@pytest.fixture
def covers(request: pytest.FixtureRequest) -> Callable[..., None]:
    """covers(operator, dtype, feature) records what this test shows, for the
    table that tools/ops_table.py prints."""
    path = os.environ.get("OPGRAFT_OPS_COVERAGE")

    def record(operator: str, dtype: torch.dtype | None, feature: str) -> None:
        if path is None:
            return
        entry = {
            "operator": operator,
            "dtype": str(dtype).removeprefix("torch."),
            "isa": os.environ.get("OPGRAFT_ISA", ""),
            "feature": feature,
            "test": request.node.nodeid.split("[")[0],
        }
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")

    return record
