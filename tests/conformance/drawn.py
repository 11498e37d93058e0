# SPDX-License-Identifier: Apache-2.0
"""Calls of operators that cases.py does not list, drawn from their
declarations: each combination of types in several sizes, and each once more
with the values that hosts treat differently. Runs where PyTorch is.

    python drawn.py FOLDER OUT MODULE...
"""

from __future__ import annotations

import pathlib
import pickle
import sys
from typing import Any, Iterator

import cases
import host_torch
import ml_dtypes
import numpy as np

from opgraft import _C

SIZES = (3, 1, 8)
CHOICES = 4  # combinations of types
DRAWS, REDRAWN = 8, 1000  # until the kernel takes a call
TYPES = {(2, 32): np.float32, (2, 64): np.float64, (2, 16): np.float16,
         (4, 16): ml_dtypes.bfloat16, (0, 8): np.int8, (0, 16): np.int16,
         (0, 32): np.int32, (0, 64): np.int64, (1, 8): np.uint8, (6, 8): np.bool_}
FLOATS = (np.float32, np.float16, ml_dtypes.bfloat16)


def is_known(item: Any) -> bool:
    """Not float8, which not all hosts can be fed."""
    if isinstance(item, list):
        return all(map(is_known, item))
    return item is None or item[:2] in TYPES


def array(item: Any) -> Any:
    if item is None:
        return None
    if isinstance(item, list):
        return [array(i) for i in item]
    code, bits, sizes, data = item
    return np.frombuffer(data or b"", TYPES[code, bits]).reshape(sizes).copy()


def attribute(value: Any) -> Any:
    """ONNX has 32-bit floats."""
    if isinstance(value, float):
        return float(np.float32(value))
    return [attribute(v) for v in value] if isinstance(value, list) else value


def arguments(d: Any, tensors: list[Any], attrs: list[Any]) -> list[Any]:
    return [array(tensors[p["tensor"]]) if p["tensor"] is not None
            else attribute(attrs[p["attr"]]) for p in d.params]


def with_specials(args: list[Any]) -> list[Any] | None:
    """NaN, infinities, both zeros and denormals, over each float tensor; None
    where there is none."""
    out, is_changed = [], False
    for arg in args:
        if (isinstance(arg, np.ndarray) and arg.dtype in FLOATS
                and arg.size > 0):
            arg = np.resize(cases.specials(arg.dtype), arg.shape)
            is_changed = True
        out.append(arg)
    return out if is_changed else None


def without_rows(args: list[Any]) -> list[Any]:
    return [a[:0] if isinstance(a, np.ndarray) and a.ndim > 0 else a
            for a in args]


def case(module: str, d: Any, label: str, args: list[Any]) -> cases.Case:
    named = {p["name"]: v for p, v in zip(d.params, args) if p["kwonly"]}
    plain = tuple(v for p, v in zip(d.params, args) if not p["kwonly"])
    return cases.Case(f"{module} {d.name} {label}", module, d.name, plain,
                      named, tuple(d.mutated))


def is_taken(folder: pathlib.Path, call: cases.Case) -> bool:
    try:
        host_torch.call(folder / f"{call.module}.so", call)
    except Exception:  # the kernel refuses its values
        return False
    return True


def calls(folder: pathlib.Path, module: Any, d: Any
          ) -> Iterator[tuple[str, list[Any]]]:
    state = module._states["base", d.name]
    for choice in range(CHOICES):
        for size in SIZES:
            for at in range(DRAWS):
                made = _C.sample_call(state, size, choice, at * REDRAWN)
                if made is None or not is_known(made[1]):
                    continue
                args = arguments(d, made[1], made[2])
                if is_taken(folder, case(module.name, d, "", args)):
                    yield f"types {choice} size {size}", args
                    break


def drawn(folder: pathlib.Path, name: str) -> Iterator[cases.Case]:
    module = host_torch.load(folder / f"{name}.so")
    for d in module._descriptions.values():
        found = list(calls(folder, module, d))
        assert found, f"{name}: no call of {d.name} was found"
        for label, args in found:
            yield case(name, d, label, args)
        for _, args in found[:1]:
            edge = with_specials(args)
            if edge is not None:
                yield case(name, d, "specials", edge)
            # Right for some operators, refused by others: the same everywhere.
            yield case(name, d, "no rows", without_rows(args))


def main() -> None:
    folder, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    out.write_bytes(pickle.dumps(
        [call for name in sys.argv[3:] for call in drawn(folder, name)]))


if __name__ == "__main__":
    main()
