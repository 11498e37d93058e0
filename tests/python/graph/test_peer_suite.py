# SPDX-License-Identifier: Apache-2.0
"""tests/peers/inductor.py: what it runs, and how it judges what fails."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

PEERS = Path(__file__).resolve().parents[2] / "peers"
PLANTED = """
import os
import unittest

import torch

import opgraft


class Planted(unittest.TestCase):
    def test_right(self):
        c = torch.compile(lambda x: x + 1, backend="aot_eager")
        self.assertEqual(c(torch.ones(2)).tolist(), [2, 2])
        self.assertEqual(torch.compile(lambda x: x + 2, mode="max-autotune")(
            torch.ones(2)).tolist(), [3, 3])

    def test_by_us(self):
        c = torch.compile(lambda x: x + 1)
        c(torch.ones(2))
        self.assertEqual(len(opgraft.stats(c).graphs), 0, "ours ran")

    def test_of_torch(self):
        assert hasattr(torch, "no_such_name")

    def test_unlisted(self):
        raise RuntimeError("everybody fails")

    def test_excused_and_right(self):
        pass

    def test_crash(self):
        os.abort()

    @unittest.skip("no device")
    def test_skipped(self):
        pass


class PlantedGPU(unittest.TestCase):
    def test_elsewhere(self):
        raise RuntimeError("no GPU")
"""
EXCUSES = """# A comment.
torch aot_eager: AssertionError: test_planted.py:23: assert hasattr(torch,
 test_planted.py Planted.test_of_torch
 test_planted.py Planted.test_excused_* static
internals aot_eager: wait status 6
 test_planted.py Planted.test_crash
torch aot_eager: of another torch
 test_planted.py Planted.test_that_is_gone
"""


@pytest.fixture(scope="module")
def peers() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        for name in ("TORCHINDUCTOR_COMPILE_THREADS",
                     "PYTORCH_TEST_SKIP_NOARCH"):
            patch.setenv(name, os.environ.get(name, "1"))
        patch.syspath_prepend(str(PEERS))
        import inductor

        yield inductor


def test_a_folder_of_tests(tmp_path: Path) -> None:
    (tmp_path / "test/dynamo").mkdir(parents=True)
    (tmp_path / "test/dynamo/test_planted.py").write_text(PLANTED)
    (tmp_path / "excuses.txt").write_text(EXCUSES)
    rows = tmp_path / "rows.jsonl"
    # The second run goes on where the first was: nothing is left to do.
    done = subprocess.run(
        [sys.executable, "-c", "import inductor, sys;"
         "sys.exit(10 * inductor.main() + inductor.main())", str(tmp_path),
         "--out", str(rows), "--excuses", str(tmp_path / "excuses.txt"),
         "--files", "planted", "--modes", "max-autotune", "--baselines",
         "aot_eager"], capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(
            [str(PEERS), *filter(None, [os.environ.get("PYTHONPATH")])])})
    out = done.stdout
    assert done.returncode == 11, done.stderr
    head = "test_planted.py Planted.test_"
    assert f"{head}by_us max-autotune static: failed: AssertionError" in out
    assert (f"{head}unlisted max-autotune static: failed: RuntimeError: "
            "everybody fails" in out)
    assert "aot_eager fails too: RuntimeError: everybody fails" in out
    assert (f"{head}excused_and_right max-autotune static: passes, and is "
            "excused" in out)
    judged = out[out.rindex("test_planted.py\n") + len("test_planted.py\n"):]
    assert judged.endswith("3 problems\n") and out.count(judged) == 2
    assert judged.splitlines()[-2].split() == ["all", "2", "2", "1", "1", "1"]
    by_name = {r["test"]: r for r in map(json.loads, rows.open())}
    assert len(by_name) == len(rows.read_text().splitlines()) == 7
    assert by_name["Planted.test_by_us"]["baseline"] == {"aot_eager": ""}


def test_a_test_that_hangs(peers: Any) -> None:
    row = peers.in_child(lambda: time.sleep(60), 0.2)
    assert row["status"] == "hang" and row["seconds"] < 30
    assert peers.in_child(lambda: {"status": "passed"}, 60)["status"] == "passed"


def row(status: str, **others: Any) -> dict[str, Any]:
    return {"file": "test_a.py", "test": "A.test_b", "mode": "max-autotune",
            "sizes": "static", "status": status, **others}


def excuses(peers: Any, *tests: str) -> Any:
    return peers.excused.excuses_read("\n".join(
        ["internals inductor: two  words", *(f" {t}" for t in tests)]))


@pytest.mark.parametrize("tests, told, kind", [
    (["test_a.py A.test_b"], {"inductor": "Error: two\nwords"}, "internals"),
    (["test_a.py A.test_*"], {"inductor": "two words"}, "internals"),
    (["test_a.py A.test_b dynamic"], {"inductor": "two words"}, "by us"),
    (["test_a.py A.test_b static"], {"inductor": "two words"}, "internals"),
    (["test_c.py A.test_b"], {"inductor": "two words"}, "by us"),
    (["test_a.py A.test_b"], {"inductor": ""}, "by us"),
    (["test_a.py A.test_b"], {"inductor": "three words"}, "by us"),
    (["test_a.py A.test_b"], {"aot_eager": "two words"}, "by us"),
    ([], {}, "by us")])
def test_what_excuses(peers: Any, tests: list[str], told: dict[str, str],
                      kind: str) -> None:
    counts, problems = peers.excused.judged(
        [row("failed", text="wrong", baseline=told)], excuses(peers, *tests))
    assert counts == {("test_a.py", "max-autotune", "static"): {kind: 1}}
    assert bool(problems) == (kind == "by us")


@pytest.mark.parametrize("line", [
    "nobody aot_eager: text", "design aot_eager: text",
    "torch opgraft: text", "torch aot_eager text",
    " test_a.py A.test_b"])
def test_lists_in_another_form(peers: Any, line: str) -> None:
    with pytest.raises(ValueError, match="line 1: expected"):
        peers.excused.excuses_read(line)


def test_the_committed_list(peers: Any) -> None:
    found = peers.excused.excuses_read((PEERS / "inductor.txt").read_text())
    assert len(set(found)) == len(found)
