# SPDX-License-Identifier: Apache-2.0
"""What a changed script tells of an observed run: lines of JSON, appended to a
file that the run's environment names."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from typing import Any

FILE = "OPGRAFT_DOCTOR_TOLD"


def tell(what: Any) -> None:
    """In the observed run."""
    with open(os.environ[FILE], "a", encoding="utf-8") as out:
        out.write(json.dumps(what) + "\n")


def source_of(fn: Callable[..., Any]) -> str:
    """An expression for a function of a module, wherever it is put."""
    return (f'__import__("{fn.__module__}", fromlist=["{fn.__name__}"])'
            f".{fn.__name__}")


def lines(path: str) -> Iterator[Any]:
    """What was told; nothing where no call came by."""
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            yield from map(json.loads, file)
