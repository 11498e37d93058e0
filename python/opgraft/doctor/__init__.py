# SPDX-License-Identifier: Apache-2.0
"""opgraft.doctor: what splits a compiled model, and what it costs.

    opgraft doctor script.py          # in a shell
    opgraft.doctor.inspect(fn, *args)  # in Python
"""

from __future__ import annotations

from ._inspect import Report, inspect

__all__ = ["Report", "inspect"]
