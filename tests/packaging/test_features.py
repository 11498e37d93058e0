# SPDX-License-Identifier: Apache-2.0
"""tests/features.md names tests that exist."""

from __future__ import annotations

import pathlib
import re

TESTS = pathlib.Path(__file__).resolve().parents[1]


def test_every_named_test_exists() -> None:
    rows = [line for line in (TESTS / "features.md").read_text().splitlines()
            if line.startswith("| ") and not line.startswith("| Feature")]
    missing = []
    for row in rows:
        named = re.findall(r"`((?:\w+/)+[\w.]+)(?:::(\w+))?`", row)
        assert named, row
        for file, function in named:
            path = TESTS / file
            text = path.read_text() if path.exists() else ""
            if not text or (function and f"def {function}(" not in text):
                missing.append(f"{file}::{function}")
    assert len(rows) > 40
    assert not missing
