#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Installs each rival of a list by itself and names those that fail."""

from __future__ import annotations

import pathlib
import subprocess
import sys


def main() -> int:
    lines = pathlib.Path(sys.argv[1]).read_text().splitlines()
    rivals = [line for line in lines if line and not line.startswith("#")]
    failed = []
    for rival in rivals:
        done = subprocess.run([sys.executable, "-m", "pip", "install", "-q",
                               rival], capture_output=True, text=True)
        if done.returncode:
            failed.append(rival)
            print(f"rival {rival} could not be installed:\n{done.stderr}")
    print(f"rivals: {len(rivals) - len(failed)} of {len(rivals)} installed"
          + (f"; missing: {', '.join(failed)}" if failed else ""))
    return 0


if __name__ == "__main__":
    sys.exit(main())
