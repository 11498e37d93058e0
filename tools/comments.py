#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws comments to be read.

    tools/comments.py --sample N [--seed S] [FOLDER...]

Prints N comments and docstrings of at least 25 characters with their places, as
one JSON list. Who has not seen the code reads them, and rewrites unclear ones;
docs/results/comments_sample.json has what became of one draw. That names in
comments exist is checked by tools/callers.py.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import random
import re
import subprocess
import sys

import prose

ROOT = pathlib.Path(__file__).resolve().parents[1]
CODE = ("src", "include", "hosts", "cli", "ops", "devices", "python")
LEAST_LENGTH = 25


def files(folders: tuple[str, ...]) -> list[pathlib.Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "--", *folders],
        cwd=ROOT, text=True, capture_output=True, check=True).stdout.split()
    return [ROOT / name for name in sorted(listed)
            if (ROOT / name).suffix in (*prose.C_FILES, ".py")
            and (ROOT / name).is_file()]


def words_of(text: str) -> str:
    """A comment without its marks, on one line."""
    bare = re.sub(r"(?m)^\s*(?://+|/\*+|\*/|\*|#)|\*/\s*\Z", " ", text)
    return " ".join(bare.split())


def comments(path: pathlib.Path) -> list[tuple[int, str]]:
    """(line, text) of each; the licence is not one."""
    text = path.read_text()
    found = []
    for part in prose.parts(path, text):
        if part.kind in ("comment", "docstring"):
            said = words_of(re.sub(r"(?m)^(?://|#) SPDX[^\n]*$", "",
                                   part.text))
            if said and not said.startswith("!"):
                found.append((text.count("\n", 0, part.begin) + 1, said))
    return found


def sample(folders: tuple[str, ...], count: int, seed: int
           ) -> list[dict[str, str]]:
    every = [{"place": f"{path.relative_to(ROOT)}:{line}", "text": said}
             for path in files(folders) for line, said in comments(path)
             if len(said) >= LEAST_LENGTH]
    return random.Random(seed).sample(every, count)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sample", type=int, metavar="N", required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("folders", nargs="*", default=CODE)
    options = parser.parse_args()
    print(json.dumps(sample(tuple(options.folders), options.sample,
                            options.seed), indent=1, ensure_ascii=False))
    return 0


if __name__ == "__main__":
    sys.exit(main())
