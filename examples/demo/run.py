#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Five scenes, one after the other, or those that are named: `make demo`. Each
runs by itself too, as in `python opaque.py`; its last line says what, how equal
and how fast."""

from __future__ import annotations

import os
import runpy
import sys
import tempfile
import time
import traceback
from pathlib import Path

HERE = Path(__file__).resolve().parent
SCENES = {
    "opaque": "An opaque kernel in a full graph",
    "ragged": "Ragged attention beside a loop, in mode reduce-overhead",
    "in_place": "An operator in place, with its TorchAir converter",
    "linear": "custom_linear from YAML, trained in every mode",
    "breaks": "A model's graph breaks of both stages, one mended",
}


def run(name: str, notes: int) -> bool:
    """Whether the scene succeeds, in a process of its own. PyTorch's warnings
    go to the file `notes`."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        os.dup2(notes, 2)
        status = 1
        try:
            runpy.run_path(str(HERE / f"{name}.py"), run_name="__main__")
            status = 0
        except BaseException:
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    return os.waitpid(child, 0)[1] == 0


def main() -> int:
    begin = time.monotonic()
    names = sys.argv[1:] or list(SCENES)
    for name in names:
        if name not in SCENES:
            raise SystemExit(f"{name}: expected one of {', '.join(SCENES)}")
    print("importing PyTorch and opgraft ...", flush=True)
    import torch._inductor.compile_fx  # noqa: F401  once, for all scenes

    import opgraft  # noqa: F401

    for i, name in enumerate(names, 1):
        print(f"\n[{i}/{len(names)}] {SCENES[name]} ({name}.py)")
        started = time.monotonic()
        with tempfile.TemporaryFile("w+") as notes:
            if not run(name, notes.fileno()):
                notes.seek(0)
                print(f"{notes.read()}\nexamples/demo/{name}.py failed")
                return 1
        print(f"  ({time.monotonic() - started:.0f} s)")
    print(f"\n{len(names)} scenes in {time.monotonic() - begin:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
