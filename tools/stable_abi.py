#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Names the symbols of Python's that an extension imports beyond the stable ABI
of Python 3.10.

    tools/stable_abi.py FILE.so...

tools/stable_abi.txt has the list, and says where it is from. An extension that
stays within it loads in every Python from 3.10 on.
"""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys

LIST = pathlib.Path(__file__).with_name("stable_abi.txt")
OF_PYTHON = re.compile(r"_?Py[A-Z_]\w*")


def stable() -> set[str]:
    return {line for line in LIST.read_text().splitlines()
            if line and not line.startswith("#")}


def imported(path: pathlib.Path) -> set[str]:
    """Python's symbols that a shared object does not define itself."""
    done = subprocess.run(["nm", "-D", "--undefined-only", path], text=True,
                          capture_output=True)
    if done.returncode != 0:
        raise SystemExit(f"{path}: {done.stderr.strip()}")
    names = (line.split()[-1].partition("@")[0]
             for line in done.stdout.splitlines())
    return {name for name in names if OF_PYTHON.fullmatch(name)}


def beyond(path: pathlib.Path) -> list[str]:
    return sorted(imported(path) - stable())


def main(paths: list[str]) -> int:
    if not paths:
        raise SystemExit(str(__doc__).strip())
    failed = 0
    for path in map(pathlib.Path, paths):
        names = beyond(path)
        failed += bool(names)
        for name in names:
            print(f"{path}: imports {name}, which is not in the stable ABI of "
                  "Python 3.10; set Py_LIMITED_API, or call what is in "
                  f"{LIST.name}")
        if not names:
            print(f"{path}: {len(imported(path))} symbols of Python's, all in "
                  "the stable ABI of 3.10")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
