# SPDX-License-Identifier: Apache-2.0
"""The simulated NPU as torch's device: one driver for all tests of a process,
with delays and the race detector."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, Iterator

import pytest
import torch

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="session")
def npu_path(build: Callable[..., Path]) -> Path:
    others = sorted(str(p) for p in (ROOT / "devices").glob("npu_*.c")
                    if p.name != "npu_sim.c")
    return build("devices/npu_sim.c", (*others, "-pthread"))


@pytest.fixture(scope="session")
def device(npu_path: Path) -> Any:
    import opgraft

    return opgraft.load_device(npu_path, options="seed=1,delay_us=20,races=1")


@pytest.fixture
def npu(device: Any) -> Iterator[Any]:
    """The device, with counters that start at zero; no test leaves a race."""
    torch.npu.synchronize()
    device.fallbacks.clear()
    device.reports()
    yield device
    torch.npu.synchronize()
    assert device.reports() == []


@pytest.fixture(scope="session")
def scaling(build: Callable[..., Path]) -> Any:
    import opgraft

    return opgraft.load(build("tests/python/device/scale.c"))
