# SPDX-License-Identifier: Apache-2.0
"""What the program does with the Python package beside it."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys

import pytest

needs_package = pytest.mark.skipif(
    importlib.util.find_spec("opgraft") is None
    or importlib.util.find_spec("torch") is None,
    reason="opgraft's package or torch is not installed",
)


def has_part(name: str) -> bool:
    return importlib.util.find_spec(f"opgraft.{name}") is not None


@pytest.mark.full
@needs_package
def test_what_new_writes_passes_its_own_test(program, program_path):
    program.ok("new", "soft_gate")
    # The test takes the program beside its Python, else the one of PATH.
    folder = program.folder / "soft_gate"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", folder],
        capture_output=True, text=True, cwd=folder, timeout=600)
    assert done.returncode == 0, done.stdout
    assert "7 passed" in done.stdout


@needs_package
def test_info_asks_the_package(program):
    import torch

    facts = json.loads(program.ok("info", "--json"))
    if not has_part("info"):
        assert facts["torch_host"] is None
        pytest.skip("the package has no opgraft.info")
    assert torch.__version__ in json.dumps(facts["torch_host"])
    assert torch.__version__ in program.ok("info")


@pytest.mark.full
@needs_package
def test_check_with_torch(program, gate):
    if not has_part("check_torch"):
        pytest.skip("the package has no opgraft.check_torch")
    words = ("check", gate / "gate.so", "--host", "torch")
    program.ok(*words)
    report = json.loads(program.ok(*words, "--json"))
    assert set(report) == {"core", "torch"}


@needs_package
@pytest.mark.skipif(importlib.util.find_spec("yaml") is None,
                    reason="PyYAML is not installed")
@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_yaml_through_python_gives_the_same(program, tmp_path):
    """The reader for builds without libyaml, as such a build calls it."""
    path = program.write("spec.yaml", 'schema: "f(Tensor x) -> Tensor"\n')
    done = subprocess.run([sys.executable, "-m", "opgraft._adopt.gen", path],
                          capture_output=True, text=True, cwd=tmp_path)
    assert json.loads(done.stdout) == [
        "map", 1, [["schema", ["text", 1, "f(Tensor x) -> Tensor", True]]]]
