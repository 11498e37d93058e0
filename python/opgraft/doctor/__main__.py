# SPDX-License-Identifier: Apache-2.0
"""python -m opgraft.doctor [OPTIONS] SCRIPT.py [ARGUMENTS]

The same as `opgraft doctor`, which it starts; --record, which that
program passes, means: run the script with hooks, and write the event file; with
--verify, try fixes for what stands in it. --rows is its --suite.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from . import _run, _suite


def main() -> int:
    words = sys.argv[1:]
    if words[:1] == ["--rows"]:
        return _suite.main(words[1:])
    if words[:1] != ["--record"]:
        program = _run.program()
        os.environ["OPGRAFT_PYTHON"] = sys.executable
        sys.stdout.flush()
        os.execv(program, [program, "doctor", *words])
    parser = argparse.ArgumentParser(prog="python -m opgraft.doctor")
    parser.add_argument("--record", required=True)
    parser.add_argument("--verify", action="store_true",
                        help="try fixes for the roots that are recorded")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--budget", type=float, default=60,
                        help="seconds for trying fixes")
    parser.add_argument("--apply", help="write verified fixes to a patch file")
    parser.add_argument("--backend", help="of every torch.compile")
    parser.add_argument("script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    args = parser.parse_args(words)
    if args.backend is not None and not _run.choose(args.backend):
        return _run.CANNOT_RUN
    if args.verify:
        from . import _verify

        return _verify.verify(Path(args.record), args.script, args.arguments,
                              args.runs, args.apply, args.budget)
    return _run.script(args.script, args.arguments, args.record,
                       runs=args.runs)


if __name__ == "__main__":
    sys.exit(main())
