# SPDX-License-Identifier: Apache-2.0
"""docs/findings.md says of each kind of finding what check says of its example."""

from __future__ import annotations

import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import findings  # noqa: E402

KINDS = findings.kinds()


def test_each_kind_has_an_example():
    examples = {path.stem for path in findings.EXAMPLES.glob("*.c")}
    assert examples == set(KINDS)
    page = findings.PAGE.read_text()
    sections = findings.sections_of(page)
    assert list(sections) == list(KINDS)
    assert page.startswith(findings.HEAD + findings.table(sections) + "\n##")


@pytest.mark.parametrize("kind", KINDS)
def test_the_example_and_its_repair(program_path, kind):
    text, trouble = findings.make(program_path, kind)
    assert not trouble
    now = findings.sections_of(findings.PAGE.read_text())[kind]
    assert findings.comparable(kind, now) == findings.comparable(kind, text)
