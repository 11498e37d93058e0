# SPDX-License-Identifier: Apache-2.0
"""`machine`: graphs of CPU tensors are captured, by the stand-in."""

from __future__ import annotations

from typing import Any, Iterator

import pytest
import torch
from standin import Standin

from opgraft._graph import backend, cuda


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    made = Standin()
    monkeypatch.setattr(backend, "cuda_device", lambda gm: made.device)
    monkeypatch.setattr(cuda, "machine", lambda device: made)
    torch._dynamo.reset()
    yield made
    torch._dynamo.reset()
