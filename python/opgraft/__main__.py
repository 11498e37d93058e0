# SPDX-License-Identifier: Apache-2.0
"""python -m opgraft COMMAND [ARGUMENTS]

The program `opgraft`; what it runs in Python, it runs in this one.
"""

from __future__ import annotations

import os
import sys

from .doctor import _run


def main() -> None:
    program = _run.program()
    os.environ["OPGRAFT_PYTHON"] = sys.executable
    sys.stdout.flush()
    try:
        os.execv(program, [program, *sys.argv[1:]])
    except OSError as error:
        raise SystemExit(f"opgraft: the program {program} did not start: "
                         f"{error.strerror}; install opgraft, or set "
                         "OPGRAFT_PROGRAM to the program") from None


if __name__ == "__main__":
    main()
