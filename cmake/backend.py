# SPDX-License-Identifier: Apache-2.0
"""The build backend of pyproject.toml: scikit-build-core, and one line before it
that says what takes so long. pip keeps the output of a build to itself (but for
`-v`), so the line goes to the terminal too, where there is one."""

from __future__ import annotations

import contextlib
import os
import pathlib
import sys
from typing import Any

from scikit_build_core import build as _build
from scikit_build_core.build import *  # noqa: F403

ROOT = pathlib.Path(__file__).resolve().parents[1]
# Processor time of a build; machines differ.
CPU_S = 92
TERMINAL = "/dev/tty"


def announcement() -> str:
    folders = ("src", "hosts", "cli", "ops")
    files = sum(1 for name in folders for _ in (ROOT / name).rglob("*.c"))
    cores = len(os.sched_getaffinity(0))
    return (f"opgraft: compiling {files} C files, about {CPU_S / cores:.0f} s on "
            f"{cores} core{'s' if cores > 1 else ''}; a wheel of `make wheel` "
            "installs in seconds\n")


def build_wheel(*words: Any, **options: Any) -> str:
    sys.stderr.write(announcement())
    if not sys.stderr.isatty():
        with contextlib.suppress(OSError), open(TERMINAL, "w") as terminal:
            terminal.write(f"\n{announcement()}")
    return _build.build_wheel(*words, **options)
