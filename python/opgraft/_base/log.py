# SPDX-License-Identifier: Apache-2.0
"""What was decided and why, on request: OPGRAFT_LOG=1 writes it to stderr."""

from __future__ import annotations

import os
import sys

_said: set[str] = set()


def enabled() -> bool:
    return os.environ.get("OPGRAFT_LOG", "") not in ("", "0")


def say(text: str) -> None:
    if enabled():
        print(f"opgraft: {text}", file=sys.stderr)


def say_once(text: str) -> None:
    if text not in _said:
        _said.add(text)
        say(text)
