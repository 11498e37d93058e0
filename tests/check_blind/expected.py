# SPDX-License-Identifier: Apache-2.0
"""What is wrong in wrong/, and what looks wrong in right/."""

from __future__ import annotations

from expected_declared import DECLARED
from expected_results import RESULTS
from expected_right import RIGHT
from expected_running import RUNNING

# kind: value, type, ignored, state, memory, gradient, layout, index or rule.
# wrong: the fault. shown: a call that shows it. reference: a function of
# references.py.
WRONG = {**RESULTS, **RUNNING, **DECLARED}

__all__ = ["RIGHT", "WRONG"]
