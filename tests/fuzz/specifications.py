# SPDX-License-Identifier: Apache-2.0
"""Specifications of somebody else, as `opgraft.adopt_spec` reads them: YAML with
declarations, C prototypes and mappings of functions in C libraries, TVM-FFI
libraries and Python modules. A wrong one is a ValueError that begins with the
file and a line. Nothing that is adopted is called."""

from __future__ import annotations

import functools
import logging
import os
import pathlib
import random
import re
import subprocess
import tempfile
import traceback
import warnings
from typing import Any, Iterator

from reader import Fuzzer, bytes_mutated

ROOT = pathlib.Path(__file__).resolve().parents[2]


@functools.cache
def folder() -> pathlib.Path:
    """With the TVM-FFI library of the tests, where TVM-FFI is there."""
    made = pathlib.Path(tempfile.mkdtemp(prefix="opgraft-fuzz-"))
    try:
        from tvm_ffi import libinfo
    except ImportError:
        return made
    needed = libinfo.find_libtvm_ffi()
    subprocess.run(
        [os.environ.get("CC", "cc"), "-shared", "-fPIC", "-o",
         str(made / "libtvm.so"), str(ROOT / "tests/python/adopt/tvm.c"),
         needed, f"-Wl,-rpath,{pathlib.Path(needed).parent}"], check=True)
    return made


def run(data: bytes) -> bool:
    import opgraft

    path = folder() / "spec.yaml"
    path.write_bytes(data)
    try:
        opgraft.adopt_spec(path).unadopt()
    except ValueError as error:
        placed = re.match(rf"{re.escape(str(path))}:\d+: .", str(error),
                          re.DOTALL)
        if placed is None or _is_accident(error.__cause__):
            raise
        return False
    return True


# What Python says of a value that its own operations do not take.
_RAW = re.compile(r"object (has no attribute|is not|cannot)|operand|argument "
                  r"(must|should)|unexpected keyword|positional argument")


def _is_accident(error: BaseException | None) -> bool:
    """Whether it was raised by a line of the package that meant no error."""
    frames = traceback.extract_tb(error.__traceback__) if error else []
    if not frames or "opgraft" not in pathlib.Path(frames[-1].filename).parts:
        return False
    return isinstance(error, (LookupError, AssertionError, RecursionError,
                              ArithmeticError, MemoryError)) or (
        isinstance(error, (TypeError, AttributeError))
        and _RAW.search(str(error)) is not None)


# --- Mutation -----------------------------------------------------------------


def _places(tree: Any) -> Iterator[tuple[Any, Any]]:
    """(container, key) of each text."""
    if isinstance(tree, (dict, list)):
        for key in tree if isinstance(tree, dict) else range(len(tree)):
            yield tree, key
            yield from _places(tree[key])


def mutate(draw: random.Random, data: bytes, tokens: list[bytes]) -> bytes:
    """Texts of a specification that stays YAML, or its bytes."""
    import yaml

    try:
        tree = yaml.safe_load(data)
    except (yaml.YAMLError, ValueError, RecursionError):
        tree = None
    places = list(_places(tree))
    if not places or draw.randrange(8) == 0:
        return bytes_mutated(draw, data, tokens)
    into, key = draw.choice(places)
    if draw.randrange(4) == 0 and isinstance(into, dict):
        word = draw.choice(tokens).decode("latin-1")
        into[word] = into.pop(key) if draw.randrange(2) else word
    elif draw.randrange(4) == 0:
        other, at = draw.choice(places)
        into[key] = other.get(at) if isinstance(other, dict) else other[at]
    else:
        text = bytes_mutated(draw, str(into[key]).encode(), tokens)
        into[key] = text.decode("latin-1")
    try:
        return yaml.safe_dump(tree, sort_keys=False).encode()
    except (yaml.YAMLError, RecursionError):
        return data


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    logging.disable()
    Fuzzer("specifications", run, mutate).main()
