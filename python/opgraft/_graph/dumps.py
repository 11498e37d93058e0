# SPDX-License-Identifier: Apache-2.0
"""options={"dump": folder}: the graph as text after each pass, and
options={"repro": folder}: where the inputs of a call go."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Callable


def writer(folder: str, name: str) -> Callable[[str, str], None]:
    """A function (pass, text) that writes NAME.NN_PASS.og files in order."""
    where = Path(os.fspath(folder))
    where.mkdir(parents=True, exist_ok=True)
    count = 0

    def write(step: str, text: str) -> None:
        nonlocal count
        (where / f"{name}.{count:02d}_{step}.graph").write_text(text)
        count += 1

    return write


def folder(where: str, name: str) -> str:
    """A folder of the graph's own: graph.og, and what a call adds."""
    path = Path(os.fspath(where)) / name
    path.mkdir(parents=True, exist_ok=True)
    return str(path)
