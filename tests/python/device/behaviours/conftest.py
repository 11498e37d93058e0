# SPDX-License-Identifier: Apache-2.0
"""Behaviours that PyTorch's reference backend has, on the simulated NPU.

A behaviour that fails has an xfail whose reason begins with `PyTorch:` (the
interface that C++ alone reaches) or with `ours:` (what opgraft lacks). Those
that do not apply stand in not_applicable.txt.
"""

from __future__ import annotations

import pytest


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "behaviour(area, summary): what a device of PyTorch does")
