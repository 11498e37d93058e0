# SPDX-License-Identifier: Apache-2.0
"""One place chooses instruction sets (src/base/isa.c): nothing that the loader
or a file of its own decides, since OPGRAFT_ISA would not reach it."""

from __future__ import annotations

import pathlib
import re
import shutil
import subprocess

import pytest

import opgraft

ROOT = pathlib.Path(__file__).resolve().parents[2]
SETS = re.findall(r"^OG_ISA\((\w+), ", (ROOT / "src/base/isa.def").read_text(),
                  re.M)


@pytest.mark.skipif(shutil.which("nm") is None, reason="needs nm")
def test_the_loader_chooses_nothing() -> None:
    package = pathlib.Path(opgraft.__file__).parent
    libraries = sorted(package.rglob("*.so"))
    assert len(libraries) > 10
    for library in libraries:
        symbols = subprocess.run(["nm", "-D", str(library)], check=True,
                                 capture_output=True, text=True).stdout
        assert not re.search(r" i \S", symbols), library
        relocations = subprocess.run(
            ["readelf", "-rW", str(library)], check=True, capture_output=True,
            text=True).stdout
        assert "IRELATIV" not in relocations, library


def test_sources_detect_and_target_in_one_place() -> None:
    found = []
    for path in sorted((ROOT / "src").rglob("*")):
        if path.suffix not in (".c", ".h", ".inc", ".def"):
            continue
        text = path.read_text()
        if re.search(r"target_clones|__builtin_cpu_supports\(\"|target\(\"",
                     text):
            found.append(str(path.relative_to(ROOT / "src")))
    headers = {f"kernel/vec_{name}.h" for name in SETS}
    assert set(found) <= headers | {"base/isa.def", "base/loops.h"}


def test_every_set_has_its_header() -> None:
    for name in SETS:
        assert (ROOT / f"src/kernel/vec_{name}.h").exists()
