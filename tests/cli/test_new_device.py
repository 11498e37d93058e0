# SPDX-License-Identifier: Apache-2.0
"""`opgraft new --device`: a driver that works as it stands."""

from __future__ import annotations

import subprocess
import sys

import pytest


def test_a_driver_that_works(program):
    text = program.ok("new", "--device", "acme")
    folder = program.folder / "acme"
    assert f"in {folder.name}:" in text
    assert {p.name for p in folder.iterdir()} == {
        "acme.c", "test_acme.py", "CMakeLists.txt"}
    (folder / "build").mkdir()
    built = program.run("build", folder / "acme.c", "-o", folder / "build/acme.so",
                        "--", "-Wconversion", "-Wshadow", "-Werror")
    assert built.returncode == 0, built.stderr
    assert 'driver of device acme; opgraft.load_device("' in built.stderr
    pytest.importorskip("torch")
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "."],
                          cwd=folder, capture_output=True, text=True)
    assert "4 passed" in done.stdout, done.stdout + done.stderr
    assert "is there already" in program.fails(2, "new", "--device", "acme")


@pytest.mark.parametrize("name", ["cuda", "my_device", "acme2", "a" * 32])
def test_names_that_no_device_has(program, name):
    assert "the device's name is" in program.fails(2, "new", "--device", name)
    assert not (program.folder / name).exists()
