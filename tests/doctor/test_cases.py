# SPDX-License-Identifier: Apache-2.0
"""The label table is sound: files, lines and ids exist, and none is left out."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
TABLE = json.loads((HERE / "cases.json").read_text())
STAGES = {"dynamo", "skip", "recompile", "backend", "autograd"}
CASE_FIELDS = {"file", "style", "clean", "raises", "dynamo_counters", "roots",
               "allowed"}
ROOT_FIELDS = {"line", "file", "also", "id", "stage", "library", "what"}


def torch_file(name: str) -> Path:
    """Found without importing torch, which takes seconds."""
    spec = importlib.util.find_spec("torch")
    assert spec and spec.origin
    return Path(spec.origin).parent / name


def registry_ids() -> set[str]:
    return set(json.loads(
        torch_file("_dynamo/graph_break_registry.json").read_text()))


def labels() -> list[tuple[dict[str, Any], dict[str, Any]]]:
    return [(case, label) for case in TABLE["cases"]
            for label in case["roots"] + case.get("allowed", [])]


def test_version() -> None:
    assert TABLE["version"] == 1


def test_every_script_is_labelled_once() -> None:
    listed = [case["file"] for case in TABLE["cases"]]
    found = [f"cases/{path.name}" for path in (HERE / "cases").glob("*.py")]
    assert sorted(listed) == sorted(found)


@pytest.mark.parametrize("case", TABLE["cases"],
                         ids=[c["file"] for c in TABLE["cases"]])
def test_case(case: dict[str, Any]) -> None:
    assert set(case) <= CASE_FIELDS
    assert case["style"] in ("model", "small")
    assert case["clean"] == (not case["roots"])
    compile((HERE / case["file"]).read_text(), case["file"], "exec")


def test_lines_hold_code() -> None:
    for case, label in labels():
        assert set(label) <= ROOT_FIELDS
        assert label["stage"] in STAGES
        lines = (HERE / label.get("file", case["file"])).read_text().split("\n")
        for line in (label["line"], *label.get("also", [])):
            text = lines[line - 1].strip()
            assert text and not text.startswith("#"), (case["file"], line)


def test_ids_are_in_the_registry() -> None:
    known = registry_ids()
    for case, label in labels():
        assert label["id"] is None or label["id"] in known, case["file"]
        library = label.get("library", "")
        if library.startswith("torch/"):
            assert torch_file(library.removeprefix("torch/")).exists()


def test_architectures_are_listed_once() -> None:
    lines = [line.split(" | ")
             for line in (HERE / "architectures.txt").read_text().splitlines()
             if not line.startswith("#")]
    assert len(lines) >= 60
    assert len({fields[0] for fields in lines}) == len(lines)
    for fields in lines:
        assert len(fields) == 4 and isinstance(json.loads(fields[3]), dict)
