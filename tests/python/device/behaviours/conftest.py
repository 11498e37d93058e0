# SPDX-License-Identifier: Apache-2.0
"""Behaviours that PyTorch's reference backend has, on the simulated NPU.

A behaviour that only C++ reaches has the mark `cxx`, with the interface and
the error without it: it passes with opgraft's C++ part, and is expected to fail
without (OPGRAFT_DEVICE_CXX=0). One that fails with it has an xfail whose reason
begins with `PyTorch:` (the interface that C++ alone reaches) or with `ours:`
(what opgraft lacks). Those that do not apply stand in not_applicable.txt.
"""

from __future__ import annotations

from typing import Any

import pytest


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "behaviour(area, summary): what a device of PyTorch does")
    config.addinivalue_line(
        "markers", "cxx(interface, raises): the C++ part of a device is needed")


@pytest.fixture(autouse=True)
def fails_without_cxx(request: pytest.FixtureRequest) -> None:
    mark = request.node.get_closest_marker("cxx")
    if mark is None:
        return
    device: Any = request.getfixturevalue("device")
    if device.cxx_missing is not None:
        request.node.add_marker(pytest.mark.xfail(
            strict=True, raises=mark.kwargs["raises"],
            reason=f"{mark.args[0]}: {device.cxx_missing}"))
