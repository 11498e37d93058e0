# SPDX-License-Identifier: Apache-2.0
"""opgraft.check with `device`: kernels for a driver's device, in its memory."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Callable

import pytest

import opgraft

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(autouse=True)
def program(monkeypatch: pytest.MonkeyPatch) -> None:
    """That of the build folder, where there is one."""
    built = Path(os.environ.get("OPGRAFT_BUILD", ROOT / "build")) / "bin/opgraft"
    if built.exists():
        monkeypatch.setenv("OPGRAFT_PROGRAM", str(built))


@pytest.fixture
def load(build: Callable[..., Path]) -> Callable[[str], Any]:
    return lambda name: opgraft.load(build(f"tests/cli/device/{name}.c",
                                        ("-pthread", "-Wno-array-bounds")))


def test_right_kernels(load: Callable[[str], Any], npu_path: Path) -> None:
    report = opgraft.check(load("right"), calls=6, device=npu_path,
                           device_options="seed=2,races=1")
    assert report and not report.faults, str(report)
    assert report.device == "npu"
    assert "square: right on npu (6 calls, " in str(report)
    assert report.skipped["host_only"] == "it has no kernel for the device"
    assert "host_only: skipped: it has no kernel for the device" in str(report)
    told = json.loads(report.json())
    assert told["device"] == "npu"
    assert {"op": "host_only", "why": "it has no kernel for the device"} in told["skipped"]


def test_wrong_kernels(load: Callable[[str], Any], npu_path: Path) -> None:
    report = opgraft.check(load("wrong"), calls=4, limit=0.5, device=str(npu_path))
    kinds = {(f.operator, f.kind) for f in report.faults}
    assert not report
    assert {("writes_behind", "out_of_bounds_write"), ("crashes", "crash"),
            ("wrong_value", "wrong_values_across_kernels"),
            ("half_gradient", "wrong_gradient")} <= kinds
    assert not any(f.operator == "right" for f in report.faults)


def test_what_cannot_be_checked(load: Callable[[str], Any], npu_path: Path,
                                tmp_path: Path) -> None:
    twice = opgraft.adopt(lambda x: x * 2, "twice(Tensor x) -> Tensor",
                          "x[*N] -> [*N]", "x: f32 -> x", name="on_device::twice")
    with pytest.raises(ValueError, match="they are in a module's file"):
        opgraft.check(twice, device=npu_path)
    right = load("right")
    with pytest.raises(ValueError, match="device_options needs device"):
        opgraft.check(right, device_options="seed=1")
    with pytest.raises(RuntimeError, match=r"no\.so: could not open"):
        opgraft.check(right, device=tmp_path / "no.so")
    with pytest.raises(RuntimeError, match="expected seed=N"):
        opgraft.check(right, device=npu_path, device_options="foo=1")
