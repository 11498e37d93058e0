# SPDX-License-Identifier: Apache-2.0
"""One process for each case of a sweep or bench over models: memory is
returned between them, and one that dies does not take the others with it.

A script calls `cases` in the parent; its children are itself with `--one`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable, Iterable, Iterator, NamedTuple

MARK = "found: "
TIMEOUT_S = 3600


class Rows(dict[str, Any]):
    """What was found by name. With a file it is kept there, so that a bench
    may be run in parts: what a part before found is not measured again. The
    file's folder is made where it is missing; a run that is ended leaves the
    file as the last row left it."""

    def __init__(self, path: Path | None) -> None:
        known = path is not None and path.exists()
        super().__init__(json.loads(path.read_text()) if known else {})
        self._path = path
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)

    def keep(self, name: str, row: Any) -> None:
        self[name] = row
        if self._path is not None:
            part = self._path.with_name(self._path.name + ".part")
            part.write_text(json.dumps(self))
            part.replace(self._path)

    def of(self, names: Iterable[str], measure: Callable[[str], Any]
           ) -> Iterator[tuple[str, Any]]:
        """Each name with its row, which is measured where none is known."""
        for name in names:
            if name not in self:
                self.keep(name, measure(name))
            yield name, self[name]


class Asked(NamedTuple):
    """What a bench over models is to run."""

    is_smoke: bool
    is_whole: bool  # then the result is written
    names: list[str]
    rows: Rows


def asked(description: str | None, models: Iterable[str], smoke: str) -> Asked:
    """By the words of the command line; `smoke` is the small model that is
    enough to see that the bench runs."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--smoke", action="store_true",
                        help="one small model, to see that it runs")
    parser.add_argument("--model", action="append", choices=list(models),
                        help="only this one, or these; nothing is written")
    parser.add_argument("--rows", type=Path, metavar="FILE",
                        help="keeps what is measured there, and takes from it "
                        "what was: for a run in parts")
    options = parser.parse_args()
    return Asked(
        options.smoke, not options.smoke and not options.model,
        [smoke] if options.smoke else options.model or list(models),
        Rows(options.rows))


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


def kept(script: Path, words: Iterable[str], path: Path, key: str,
         is_resumed: bool, timeout: float = TIMEOUT_S) -> dict[str, Any]:
    """A child's report, which `path` keeps; a resumed run takes what is there
    under the same `key` (the hash of what is measured). Errors are not kept."""
    if is_resumed and path.exists():
        said: dict[str, Any] = json.loads(path.read_text())
        if said["hash"] == key:
            rows: dict[str, Any] = said["rows"]
            return rows
    found = one(script, words, timeout)
    if "error" not in found:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"hash": key, "rows": found}))
    return found
