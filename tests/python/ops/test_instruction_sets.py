# SPDX-License-Identifier: Apache-2.0
"""The tests of this folder once with each lower instruction set.

The library reads OPGRAFT_ISA once, so that each set has a process of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


def run(isa: str, select: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider",
         str(Path(__file__).parent), "-k", select],
        env={**os.environ, "OPGRAFT_ISA": isa},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]


forced = pytest.mark.skipif(
    "OPGRAFT_ISA" in os.environ, reason="an instruction set is already forced"
)
sets = pytest.mark.parametrize("isa", ["scalar", "avx2", "avx512"])


@pytest.mark.full
@forced
@sets
def test_short(isa: str) -> None:
    run(isa, "one_long or few_rows or test_linear_gradient or test_fused_add "
        "or test_rope_table or test_merge_states or test_custom_mask "
        "or test_every_byte and dims1")


@forced
@sets
@pytest.mark.full
def test_all(isa: str) -> None:
    # What a smoke run leaves out, `make test-isa` has.
    run(isa, "not compile" if not os.environ.get("OPGRAFT_SMOKE")
        else "not compile and (norm or rope or linear or topk)")
