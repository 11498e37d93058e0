# SPDX-License-Identifier: Apache-2.0
"""tools/charts.py draws each goal of a result; a result is written with it."""

from __future__ import annotations

import json
import pathlib
import sys
import xml.etree.ElementTree as ET

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import charts  # noqa: E402
import results  # noqa: E402

SVG = "{http://www.w3.org/2000/svg}"
GOALS = [
    {"what": "call / <pybind11>", "figure": 0.5, "bound": "<= 1",
     "verdict": "holds"},
    {"what": "size", "figure": 30.0, "bound": "<= 10 MB",
     "verdict": "falls short"},
    {"what": "rows", "figure": None, "bound": "no rival",
     "verdict": "falls short"},
    {"what": "peak", "figure": 1.5, "verdict": "limit"},
    {"what": "first", "verdict": "too noisy"},
]


def drawn(name: str, result: dict) -> ET.Element:
    return ET.fromstring(charts.svg(name, result))


def test_each_goal_has_a_bar_against_its_bound() -> None:
    svg = drawn("call", {"goals": GOALS, "processor": "a & b"})
    words = [t.text for t in svg.iter(f"{SVG}text")]
    assert "call / <pybind11>" in words and "0.5 (<= 1)" in words
    assert "1.5, the machine's limit" in words and "too noisy" in words
    bars = [(r.get("class"), float(str(r.get("width"))))
            for r in svg.iter(f"{SVG}rect")]
    assert bars[0] == ("holds", charts.BOUND / 2)
    assert bars[1][0] == "short" and len(bars) == 2
    assert charts.BOUND < bars[1][1] <= charts.WIDTH - 16
    assert "no goals" in "".join(drawn("none", {}).itertext())


def test_every_result_can_be_drawn() -> None:
    seen = 0
    for path in sorted((ROOT / "docs/results").glob("*.json")):
        result = json.loads(path.read_text())
        if not isinstance(result, dict) or "goals" not in result:
            continue
        words = {t.text for t in drawn(path.stem, result).iter(f"{SVG}text")}
        assert {goal["what"] for goal in result["goals"]} <= words, path.name
        seen += 1
    assert seen > 10


def test_a_result_is_written_with_its_chart(
        tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "RESULTS", tmp_path)
    results.write("call", [ROOT / "tools/charts.py"], {"goals": GOALS})
    assert json.loads((tmp_path / "call.json").read_text())["goals"] == GOALS
    assert ET.parse(tmp_path / "call.svg").getroot().tag == f"{SVG}svg"
    results.write("fuzz", [ROOT / "tools/charts.py"], {"runs": 3})
    assert not (tmp_path / "fuzz.svg").exists()
