# SPDX-License-Identifier: Apache-2.0
"""What a host's script shares: it makes every call in a process of its own.

    python host_NAME.py FOLDER OUT [CASES]

FOLDER holds the modules, CASES the calls (pickled; those of cases.py where it
is left out), OUT is written: label to ("right", results), each
result its type, shape and bytes; ("wrong", text); or ("missing", reason).
"""

from __future__ import annotations

import pathlib
import pickle
import sys
from typing import Any, Callable

import cases


class Missing(Exception):
    """The adapter says why it does not offer the operator."""


def packed(array: Any) -> tuple[str, tuple[int, ...], bytes]:
    return array.dtype.name, tuple(array.shape), array.tobytes()


def main(call: Callable[[pathlib.Path, cases.Case], list[Any]]) -> None:
    folder, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    results: dict[str, tuple[str, Any]] = {}
    given = (pickle.loads(pathlib.Path(sys.argv[3]).read_bytes())
             if sys.argv[3:] else cases.everything())
    for case in given:
        try:
            arrays = call(folder / f"{case.module}.so", case)
            results[case.label] = "right", [packed(a) for a in arrays]
        except Missing as error:
            results[case.label] = "missing", str(error)
        except Exception as error:  # what the host made of a refusal
            results[case.label] = "wrong", f"{type(error).__name__}: {error}"
    out.write_bytes(pickle.dumps(results))
