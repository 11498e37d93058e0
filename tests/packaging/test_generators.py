# SPDX-License-Identifier: Apache-2.0
"""tools/generators.py: it runs every generator of the tests, and a find fails
it."""

from __future__ import annotations

import json
import pathlib
import re
import shlex
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import generators  # noqa: E402

PLANTED = "import sys, time; seed = int(sys.argv[1]); print({text!r}); {end}"


def planted(name: str, text: str, end: str = "") -> generators.Generator:
    code = PLANTED.format(text=text, end=end)
    return generators.Generator(
        name, "", shlex.join([sys.executable, "-c", code]) + " {seed}")


def test_a_find_fails_and_begins_its_minutes_anew(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "runs.jsonl"
    monkeypatch.setattr(generators, "GENERATORS", [
        planted("told", "1,000 cases, 2 found"),
        planted("ended", "seed 7: wrong", "sys.exit(1)"),
        planted("right", "30 passed, 0 failed")])
    monkeypatch.setattr(generators.run_tests, "machine_sets", lambda: ["scalar"])
    words = ["--out", str(out), "--minutes", "0.0005"]
    assert generators.main(words) == 1
    said = capsys.readouterr().out
    assert re.search(r"^told \| 1 \| .* \| 0\.0 \| 1,000 \| 2$", said, re.M)
    assert re.search(r"^ended \| 1 \| .* \| 0\.0 \| 0 \| 1$", said, re.M)
    assert re.search(r"^right \| \d+ \| .* \| [\d,]+ \| 0$", said, re.M)
    assert "seed 7: wrong" in said
    runs = [json.loads(line) for line in out.read_text().splitlines()]
    assert len({run["seed"] for run in runs}) == len(runs)
    assert generators.main([*words, "right"]) == 0  # its minutes have passed
    assert len(out.read_text().splitlines()) == len(runs)
    assert generators.main([*words, "ended"]) == 1


def test_each_generator_is_run() -> None:
    """And each that is run is there."""
    taken = set()
    for file in (ROOT / "tests").rglob("test_*.py"):
        test = ""
        for line in file.read_text().splitlines():
            test = (re.match(r"def (\w+)\(", line) or [0, test])[1]
            if line.startswith("    rounds("):
                taken.add(f"{file.relative_to(ROOT)}::{test}")
    commands = [g.command for g in generators.GENERATORS]
    assert taken == {w for c in commands for w in c.split() if "::" in w}
    assert len(taken) > 10
