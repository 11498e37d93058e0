# SPDX-License-Identifier: Apache-2.0
"""`make demo`: each scene succeeds, and ends in what, how equal and how fast."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

RUN = Path(__file__).resolve().parents[2] / "examples" / "demo" / "run.py"
LAST = {
    "opaque": r"opaque kernel: \d graphs became 1; equal to eager within \S+; "
              r"\d+ -> \d+ us",
    "ragged": r"ragged attention: no break .*; equal to the loop within \S+; "
              r"\d+ -> \d+ us",
    "in_place": r"in place: 0 copies in both modes; equal to eager within \S+; "
                r"a step takes \d+ us",
    "linear": r"custom_linear: trained in 6 modes; loss equal .* within \S+; a "
              r"step takes \d+ us",
    "breaks": r"graph breaks: [2-9] root causes in both stages, [1-9] mended; "
              r"every result is equal; (\d+ us a step less|a step takes as "
              r"long)",
}


def run(*names: str) -> str:
    done = subprocess.run([sys.executable, str(RUN), *names], text=True,
                          capture_output=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def scenes(text: str) -> dict[str, list[str]]:
    """The lines of each scene, without its heading and its time."""
    return {found[1]: found[2].splitlines() for found in re.finditer(
        r"^\[[^\n]* \((\w+)\.py\)\n(.*?)^  \(\d+ s\)$", text, re.M | re.S)}


@pytest.mark.parametrize("names", [
    ("opaque", "ragged", "in_place"),
    pytest.param(tuple(LAST), marks=pytest.mark.full)])
def test_scenes(names: tuple[str, ...]) -> None:
    found = scenes(run(*names))
    assert tuple(found) == names
    for name, lines in found.items():
        assert re.match(LAST[name], lines[-1]), lines
    assert "Attempted to call function marked as skipped" in found["opaque"][0]
    assert "PyCapsule" in found["opaque"][0]
    assert ".item()" in found["ragged"][0]
    assert "register_fx_node_ge_converter" in found["in_place"][0]


def test_a_scene_that_does_not_exist() -> None:
    done = subprocess.run([sys.executable, str(RUN), "opake"], text=True,
                          capture_output=True, timeout=60, check=False)
    assert done.returncode == 1 and "expected one of opaque, ragged" in done.stderr
