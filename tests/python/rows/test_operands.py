# SPDX-License-Identifier: Apache-2.0
"""Graph text in which an operand is missing, or a number: run or refused, never
a crash, for every operator of src/graph/ops.def."""

from __future__ import annotations

import pathlib
import re
import subprocess

import numpy as np
import pytest
from alone import ROOT, program

TABLE = (ROOT / "src/graph/ops.def").read_text()
OPERATORS = [
    (m[1], int(m[2]), int(m[3]), int(m[4])) for m in re.finditer(
        r"^OG_OP\((\w+), (\d+), (-?\d+), (-?\d+),", TABLE, re.MULTILINE)
    if m[1] != "foreign" and m[2] != "0"]


@pytest.mark.parametrize(("op", "least", "most", "results"), OPERATORS,
                         ids=[o[0] for o in OPERATORS])
def test_an_operand_that_is_no_tensor_never_crashes(
    op: str, least: int, most: int, results: int, tmp_path: pathlib.Path
) -> None:
    count = max(least, 2) if most < 0 else most
    for shape in ((4, 4), (1, 1, 4, 4)):
        kind = f"f32{list(shape)}"
        np.save(tmp_path / "x.npy", np.ones(shape, "f4"))
        made = ", ".join(f"%y{r}: {kind}" for r in range(max(results, 1)))
        for place in range(count):
            for other in ("none", "0.5"):
                given = ["%x"] * count
                given[place] = other
                (tmp_path / "g.og").write_text(
                    f"graph g(%x: {kind}) {{\n  {made} = "
                    f"{op}({', '.join(given)})\n  return %y0\n}}\n")
                done = subprocess.run(
                    [program(), "run", "g.og", "--in", "x.npy"], cwd=tmp_path,
                    capture_output=True, text=True, timeout=60)
                assert done.returncode in (0, 2), (given, done.stderr)
