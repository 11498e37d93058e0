# SPDX-License-Identifier: Apache-2.0
"""The calls in AOTInductor: of the C functions that the code of its packages
calls, with PyTorch's tensors. tests/conformance/test_aoti.py has packages."""

from __future__ import annotations

import ctypes
import functools
import pathlib
import subprocess
import tempfile
from typing import Any

import cases
import hosting
import torch
from torch_arrays import array, tensor

from opgraft._base.shared import SharedObject
from opgraft._base.tables import Description

INTS, DOUBLES, TEXT_BYTES = 40, 8, 1 << 14
NUMBERS = {"int": ctypes.c_int64, "SymInt": ctypes.c_int64,
           "float": ctypes.c_double, "bool": ctypes.c_int32}
AOTI = torch._C._aoti
address_of = ctypes.pythonapi.PyCapsule_GetPointer
address_of.restype = ctypes.c_void_p
address_of.argtypes = [ctypes.py_object, ctypes.c_char_p]
capsule_of = ctypes.pythonapi.PyCapsule_New
capsule_of.restype = ctypes.py_object
capsule_of.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


@functools.cache
def caller() -> Any:
    with tempfile.TemporaryDirectory() as folder:
        out = f"{folder}/aoti_call.so"
        subprocess.run(
            ["c++", "-std=c++17", "-O1", "-shared", "-fPIC",
             str(pathlib.Path(__file__).with_name("aoti_call.cpp")), "-o", out],
            check=True)
        return ctypes.CDLL(out).call


@functools.cache
def load(path: str) -> tuple[SharedObject, dict[str, tuple[int, Description]]]:
    file = SharedObject(path, path, "aoti", "AOTInductor")
    found = [Description(file.describe(i)) for i in range(file.count)]
    return file, {d.name: (i, d) for i, d in enumerate(found)}


class Call:
    """The words of one call, and what they point to until it has returned."""

    def __init__(self) -> None:
        self.ints: list[int] = []
        self.doubles: list[float] = []
        self.held: list[Any] = []
        self.handles: list[int] = []

    def handle(self, value: torch.Tensor) -> int:
        capsule = AOTI.unsafe_alloc_void_ptr_from_tensor(value)
        self.handles.append(address_of(capsule, None))
        return self.handles[-1]

    def hold(self, value: Any) -> int:
        self.held.append(value)
        return ctypes.addressof(value)

    def text(self, value: str) -> int:
        return self.hold(ctypes.create_string_buffer(value.encode()))

    def add(self, param: dict[str, Any], value: Any) -> None:
        kind = param["type"]
        if kind == "Tensor":
            word, one = ctypes.c_void_p, self.handle
        elif kind == "str":
            word, one = ctypes.c_void_p, self.text
        elif kind in NUMBERS:
            word, one = NUMBERS[kind], lambda number: number
        else:
            raise NotImplementedError(kind)
        if param["list"]:
            entries = [one(v) for v in value]
            self.ints += [self.hold((word * len(entries))(*entries)),
                          len(entries)]
        elif param["optional"]:
            self.ints.append(
                0 if value is None else self.hold(word(one(value))))
        elif kind == "float":
            self.doubles.append(value)
        else:
            self.ints.append(one(value))

    def run(self, function: Any, results: int) -> list[torch.Tensor]:
        made = (ctypes.c_void_p * max(results, 1))()
        self.ints += [ctypes.addressof(made) + 8 * i for i in range(len(made))]
        assert len(self.ints) <= INTS and len(self.doubles) <= DOUBLES
        text = ctypes.create_string_buffer(TEXT_BYTES)
        status = caller()(
            ctypes.cast(function, ctypes.c_void_p),
            (ctypes.c_int64 * INTS)(*self.ints),
            (ctypes.c_double * DOUBLES)(*self.doubles), text, TEXT_BYTES)
        for handle in self.handles:
            AOTI.alloc_tensor_by_stealing_from_void_ptr(
                capsule_of(handle, None, None))
        if status != 0:
            raise RuntimeError(text.value.decode())
        return [AOTI.alloc_tensor_by_stealing_from_void_ptr(
            capsule_of(address, None, None)) for address in made[:results]]


def call(path: pathlib.Path, case: cases.Case) -> list[Any]:
    file, found = load(str(path))
    index, description = found[case.op]
    limit = file.limit(index)
    if limit is not None:
        raise hosting.Missing(limit)
    args = description.bind(tuple(tensor(a) for a in case.args), case.kwargs)
    words = Call()
    for param, value in zip(description.params, args):
        words.add(param, value)
    function = getattr(file.object, f"aoti_torch_cpu_{description.base_name}")
    fresh = words.run(function, len(description.fresh))
    return [array(t) for t in fresh + [args[i] for i in case.written]]


if __name__ == "__main__":
    hosting.main(call)
