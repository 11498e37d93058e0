# SPDX-License-Identifier: Apache-2.0
"""One process for each case of a sweep or bench over models: memory is given
back between them, and one that dies does not take the others with it.

A script calls `cases` in the parent; its children are itself with `--one`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Iterable

MARK = "found: "
TIMEOUT_S = 3600


class Rows(dict[str, Any]):
    """What was found by name. With a file it is kept there, so that a bench
    may be run in parts: what a part before found is not measured again."""

    def __init__(self, path: Path | None) -> None:
        known = path is not None and path.exists()
        super().__init__(json.loads(path.read_text()) if known else {})
        self._path = path

    def keep(self, name: str, row: Any) -> None:
        self[name] = row
        if self._path is not None:
            self._path.write_text(json.dumps(self))


def report(found: dict[str, Any]) -> None:
    """In the child: what the parent is to know."""
    print(MARK + json.dumps(found), flush=True)


def one(script: Path, words: Iterable[str], timeout: float = TIMEOUT_S
        ) -> dict[str, Any]:
    """A child's report, or {"error": the last line that it printed}."""
    command = [sys.executable, str(script), "--one", *words]
    try:
        done = subprocess.run(command, text=True, errors="replace",
                              stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=timeout)
    except subprocess.TimeoutExpired:
        return {"error": f"not done after {timeout:.0f} s"}
    lines = [line for line in done.stdout.splitlines() if line.strip()]
    for line in reversed(lines):
        if line.startswith(MARK):
            found: dict[str, Any] = json.loads(line.removeprefix(MARK))
            return found
    said = lines[-1] if lines else "nothing printed"
    return {"error": f"status {done.returncode}: {said[:300]}"}
