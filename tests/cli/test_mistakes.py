# SPDX-License-Identifier: Apache-2.0
"""The table of tests/mistakes/README.md: what check looks at has a mistake that
shows it, and check finds it."""

from __future__ import annotations

import json
import pathlib
import re

import pytest

FOLDER = pathlib.Path(__file__).resolve().parents[1] / "mistakes"
ROW = re.compile(r"^\| [^|]+ \| (`.+`) \|$", re.M)
NAMES = [name for row in ROW.findall((FOLDER / "README.md").read_text())
         for name in re.findall(r"`(\w+)`", row)]


def test_the_table_is_read():
    assert len(NAMES) >= 30 and len(set(NAMES)) == len(NAMES)


@pytest.mark.full
@pytest.mark.parametrize("name", NAMES)
def test_it_is_found(program, name):
    source = FOLDER / "wrong" / f"{name}.c"
    header = source.read_text()
    expected = re.search(r"^// expect: (.+?) \S+ \S+$", header, re.M)
    options = re.search(r"^// run: (.+)$", header, re.M)
    done = program.run("check", source, "--json",
                       *(options[1].split() if options else []))
    assert done.returncode == 1, done.stderr
    found = {finding["op"] for op in json.loads(done.stdout)["operators"]
             for finding in op["findings"]}
    assert found & set(expected[1].split("|"))
