# SPDX-License-Identifier: Apache-2.0
"""Every host in one process over one mapping of a file. Prints how many times
the file's code is mapped; fails where a host gives other bytes.

    python together.py scale.so PACKAGES ORDER   ORDER: jax,tvm_ffi,...

PACKAGES: folders of further packages, apart by colons.
"""

from __future__ import annotations

import ctypes
import pathlib
import sys
from typing import Any, Callable

import numpy as np

PATH = sys.argv[1]
sys.path += [place for place in sys.argv[2].split(":") if place]


def drawn() -> tuple[Any, Any]:
    random = np.random.default_rng(5)
    x = random.standard_normal((7, 4)).astype("f")
    x[0] = np.nan, -0.0, 1e-40, np.inf  # a denormal number
    return x, random.standard_normal(4).astype("f")


def by_jax(x: Any, weight: Any) -> Any:
    """The handler of this very mapping; opgraft.jax.load would map a copy."""
    import jax

    handler = ctypes.CDLL(PATH).opgraft_jax_handler
    handler.restype = ctypes.c_void_p
    jax.ffi.register_ffi_target(
        "together", jax.ffi.pycapsule(ctypes.c_void_p(handler(0))),
        platform="cpu")
    call = jax.ffi.ffi_call("together", jax.ShapeDtypeStruct(x.shape, x.dtype))
    return np.asarray(jax.jit(call)(x, weight))


def by_onnxruntime(x: Any, weight: Any) -> Any:
    from onnx import TensorProto, helper

    import opgraft.onnx

    m = opgraft.onnx.load(PATH)
    graph = helper.make_graph(
        [m.node("scale", ["x", "weight"], ["y"])], "one",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, v.shape)
         for n, v in (("x", x), ("weight", weight))],
        [helper.make_empty_tensor_value_info("y")])
    model = helper.make_model(graph, ir_version=10, opset_imports=[
        helper.make_opsetid("", 21), m.opset()])
    return m.session(model).run(None, {"x": x, "weight": weight})[0]


def by_tvm_ffi(x: Any, weight: Any) -> Any:
    import tvm_ffi

    return np.from_dlpack(tvm_ffi.load_module(PATH).scale(x, weight))


def by_aoti(x: Any, weight: Any) -> Any:
    """As a package's code calls it."""
    import torch

    aoti, python = torch._C._aoti, ctypes.pythonapi
    address, text = ctypes.c_void_p, ctypes.c_char_p
    opened = ctypes.PYFUNCTYPE(address, ctypes.py_object, text)(
        ("PyCapsule_GetPointer", python))
    closed = ctypes.PYFUNCTYPE(ctypes.py_object, address, text, address)(
        ("PyCapsule_New", python))
    handles = [opened(aoti.unsafe_alloc_void_ptr_from_tensor(
        torch.from_numpy(a)), None) for a in (x, weight)]
    call = ctypes.CDLL(PATH).aoti_torch_cpu_scale
    call.argtypes = [address] * 3
    result = address()
    assert call(*handles, ctypes.byref(result)) == 0
    for handle in handles:
        aoti.alloc_tensor_by_stealing_from_void_ptr(closed(handle, None, None))
    return aoti.alloc_tensor_by_stealing_from_void_ptr(
        closed(result, None, None)).numpy()


def by_tensorflow(x: Any, weight: Any) -> Any:
    import opgraft.tensorflow

    return opgraft.tensorflow.load(PATH).scale(x, weight).numpy()


def by_torch(x: Any, weight: Any) -> Any:
    """A copy of the file: it may be rebuilt while it is loaded."""
    import torch

    import opgraft

    y = opgraft.load(PATH).scale(torch.from_numpy(x), torch.from_numpy(weight))
    return y.numpy()


def main() -> None:
    x, weight = drawn()
    hosts: dict[str, Callable[[Any, Any], Any]] = {
        name.removeprefix("by_"): f for name, f in globals().items()
        if name.startswith("by_")}
    wanted = (x * weight).tobytes()
    for _ in range(2):  # each again, once all are there
        for name in sys.argv[3].split(","):
            assert hosts[name](x, weight).tobytes() == wanted, name
    place = str(pathlib.Path(PATH).resolve())
    maps = pathlib.Path("/proc/self/maps").read_text().splitlines()
    print(sum(line.endswith(place) and " r-xp " in line for line in maps))


if __name__ == "__main__":
    main()
