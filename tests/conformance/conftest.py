# SPDX-License-Identifier: Apache-2.0
"""Modules that serve every host, built once a session."""

from __future__ import annotations

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import build  # noqa: E402


@pytest.fixture(scope="session")
def modules(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return build.modules(tmp_path_factory.mktemp("modules"))
