# SPDX-License-Identifier: Apache-2.0
"""examples/ragged_serving runs and holds what it says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[3] / "examples" / "ragged_serving"


def run(script: str) -> str:
    done = subprocess.run(
        [sys.executable, str(FOLDER / script), "--smoke"],
        capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    return done.stdout


@pytest.mark.full
def test_serving_gives_equal_tokens() -> None:
    found = run("serve.py")
    assert "give equal tokens; 0 requests differ from plain torch" in found

