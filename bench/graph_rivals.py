# SPDX-License-Identifier: Apache-2.0
"""Other runtimes on the chain of bench/overhead.py, each as f(x, y).

Inductor and AOTInductor run the operator registered in C++. ONNX Runtime and
OpenVINO have no such operator, so there it is a Mul and an Add, which their
optimizers may fuse with what stands around.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable

import torch

SIZE = 16  # numbers in a tensor


def cpp_wrapper(f: Callable[..., Any], args: Any, _: Path) -> Any:
    c = torch.compile(f, backend="inductor", dynamic=False,
                      options={"cpp_wrapper": True})
    c(*args)
    return c


def aotinductor(f: Callable[..., Any], args: Any, folder: Path) -> Any:
    from torch._inductor import aoti_compile_and_package, aoti_load_package

    class Whole(torch.nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return f(x, y)  # type: ignore[no-any-return]

    program = torch.export.export(Whole(), args, strict=False)
    return aoti_load_package(aoti_compile_and_package(
        program, package_path=str(folder / "chain.pt2")))


def onnx_chain(count: int, every: int, folder: Path) -> Path:
    """The chain as a file: x * 0.75 and relu in turn, each `every`th node
    x + 0.5 * y."""
    import onnx
    from onnx import TensorProto, helper

    nodes, name = [], "x"
    for i in range(count):
        out = "z" if i == count - 1 else f"v{i}"
        if i % every == every - 1:
            nodes += [helper.make_node("Mul", ["y", "half"], [f"h{i}"]),
                      helper.make_node("Add", [name, f"h{i}"], [out])]
        elif i % 2:
            nodes.append(helper.make_node("Mul", [name, "scale"], [out]))
        else:
            nodes.append(helper.make_node("Relu", [name], [out]))
        name = out
    graph = helper.make_graph(
        nodes, "chain",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, [SIZE])
         for n in "xy"],
        [helper.make_tensor_value_info("z", TensorProto.FLOAT, [SIZE])],
        [helper.make_tensor("half", TensorProto.FLOAT, [], [0.5]),
         helper.make_tensor("scale", TensorProto.FLOAT, [], [0.75])])
    path = folder / "chain.onnx"
    onnx.save(helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


def onnx_runtime(path: Path) -> Any:
    """Inputs and output stay bound, the least that it can be asked to do."""
    import onnxruntime as ort

    settings = ort.SessionOptions()
    settings.intra_op_num_threads = settings.inter_op_num_threads = 1
    session = ort.InferenceSession(
        str(path), settings, providers=["CPUExecutionProvider"])
    bound: dict[int, Any] = {}

    def run(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        if id(x) not in bound:
            binding, out = session.io_binding(), torch.empty(SIZE)
            for name, tensor in (("x", x), ("y", y)):
                binding.bind_input(name, "cpu", 0, "float32", [SIZE],
                                   tensor.data_ptr())
            binding.bind_output("z", "cpu", 0, "float32", [SIZE],
                                out.data_ptr())
            bound[id(x)] = (binding, out)
        binding, out = bound[id(x)]
        session.run_with_iobinding(binding)
        return out

    return run


def openvino(path: Path) -> Any:
    import openvino as ov

    request = ov.Core().compile_model(
        str(path), "CPU", {"INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1,
                           "INFERENCE_PRECISION_HINT": "f32"}
    ).create_infer_request()
    bound: dict[int, Any] = {}

    def run(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        if id(x) not in bound:
            out = torch.empty(SIZE)
            for name, tensor in (("x", x), ("y", y)):
                request.set_tensor(name, ov.Tensor(tensor.numpy(),
                                                   shared_memory=True))
            request.set_tensor("z", ov.Tensor(out.numpy(), shared_memory=True))
            bound[id(x)] = out
        request.infer()
        return bound[id(x)]

    return run
