# SPDX-License-Identifier: Apache-2.0
"""What tests of doctor share."""

from __future__ import annotations

import os
from pathlib import Path

HERE = Path(__file__).parent


def steady(**more: str) -> dict[str, str]:
    """The environment of a machine that nothing disturbs (steady_times)."""
    return {"PYTHONPATH": os.pathsep.join(
        [str(HERE / "steady_times"), *filter(None, [
            os.environ.get("PYTHONPATH")])]), **more}
