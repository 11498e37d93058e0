# SPDX-License-Identifier: Apache-2.0
"""docs/errors.md says of each error code what its program prints today."""

from __future__ import annotations

import importlib.util
import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import errors  # noqa: E402
import findings  # noqa: E402

CODES = list(errors.codes())


@pytest.fixture(scope="module")
def lib() -> pathlib.Path:
    spec = importlib.util.find_spec("opgraft")
    assert spec is not None and spec.origin is not None
    return pathlib.Path(spec.origin).parent / "lib"


def test_each_code_has_a_program() -> None:
    assert len(CODES) == 11
    assert {p.stem for p in errors.EXAMPLES.glob("*.c")} == set(CODES)
    page = errors.PAGE.read_text()
    assert list(findings.sections_of(page)) == CODES
    assert page.startswith(errors.HEAD)


@pytest.mark.parametrize("code", CODES)
def test_the_program_and_its_repair(lib: pathlib.Path, code: str) -> None:
    text, trouble = errors.make(lib, code)
    assert not trouble
    assert findings.sections_of(errors.PAGE.read_text())[code] == text
