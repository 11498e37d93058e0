# SPDX-License-Identifier: Apache-2.0
"""examples/opaque_moe runs and holds what it says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[3] / "examples" / "opaque_moe"


def test_the_kernel_breaks_the_graph_and_no_more() -> None:
    done = subprocess.run(
        [sys.executable, str(FOLDER / "run.py"), "--smoke"],
        capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    assert "before: fullgraph=True refuses: Attempted to call function marked " \
           "as skipped" in done.stdout
    assert re.search("before: opgraft: [2-9] graphs", done.stdout)
    assert "after: fullgraph=True takes it: True" in done.stdout
    assert "after: opgraft: 1 graph" in done.stdout
