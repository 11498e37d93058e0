# SPDX-License-Identifier: Apache-2.0
"""tests/features.md names tests that exist, and leaves no command and no field
of a declaration out."""

from __future__ import annotations

import pathlib
import re

TESTS = pathlib.Path(__file__).resolve().parents[1]
# Of og_op: what says how long a list is, and what only a sharding host reads.
NO_FEATURE = {"kernel_count", "kernel_size", "reserved", "reduce"}


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


def test_nothing_is_left_out() -> None:
    root = TESTS.parent
    header = (root / "include/opgraft/op.h").read_text()
    record = re.search(r"typedef struct og_op \{(.*?)\n\} og_op;", header,
                       re.DOTALL)
    commands = re.findall(r"COMMAND\((\w+)\)",
                          (root / "cli/commands.def").read_text())
    assert record and len(commands) > 8
    fields = re.findall(r"^  [\w ]+[ *](?:\(\*)?(\w+)\)?(?:\([^;]*\))?;",
                        record[1], re.MULTILINE)
    assert {"schema", "kernels", "flags", "infer", "sample"} <= set(fields)
    named = set(re.findall(r"\w+", (TESTS / "features.md").read_text()))
    assert set(fields) - NO_FEATURE - named == set()
    assert set(commands) - named == set()
