# SPDX-License-Identifier: Apache-2.0
"""The examples' scenes: doctor takes each from break to one graph."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from steady import steady

SCENES = Path(__file__).resolve().parents[3] / "examples" / "doctor_scenes"


def doctor(folder: Path, *words: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "opgraft.doctor", "--runs", "3", "--json",
         "report.json", "--budget", "900", *words], cwd=folder,
        capture_output=True, text=True,
        env={**os.environ, "NO_COLOR": "1", **steady()})
    assert done.returncode == 0, done.stderr
    return json.loads((folder / "report.json").read_text())


@pytest.mark.full
@pytest.mark.parametrize("name, id, kind", [("moe", "GB0007", "adopt"),
                                            ("attention", "GB0124", "flag")])
def test_from_break_to_one_graph(
    tmp_path: Path, name: str, id: str, kind: str
) -> None:
    folder = tmp_path / "scene"
    shutil.copytree(SCENES, folder)
    script = f"{name}.py"
    before = doctor(folder, "--apply", "fixes.patch", script)
    fixes = {r["id"]: r["fix"] for r in before["roots"]
             if r["stage"] in ("dynamo", "skip")}
    assert fixes[id]["class"] == kind
    assert "the results are the same" in fixes[id]["text"], fixes
    assert fixes[id]["status"] == "verified"
    subprocess.run(["patch", "-p1", "-i", "fixes.patch"], cwd=folder,
                   check=True, stdout=subprocess.DEVNULL)
    after = doctor(folder, "--no-verify", script)
    assert not [r for r in after["roots"]
                if r["stage"] in ("dynamo", "skip")]
    assert after["frames"]["total"] == after["frames"]["compiled"]
