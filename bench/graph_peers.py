# SPDX-License-Identifier: Apache-2.0
"""Who runs the graphs of bench/graphs.py: eager, Inductor, ONNX Runtime,
OpenVINO, and this engine in both modes, and frozen.

`make(job)` compiles and returns a call without arguments; what it takes until
that call's first result is the compile time. Each runs in a process of its
own (graph_worker.py), so no peer reuses what another compiled: Dynamo takes a
second model of the same structure for the first, and then freezes nothing.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable

import torch
from graph_set import Built

Call = Callable[[], Any]


@dataclass
class Job:
    built: Built
    threads: int
    folder: Path  # kept between a cold start and a warm one
    notes: dict[str, Any] = field(default_factory=dict)

    @property
    def is_bf16(self) -> bool:
        return any(p.dtype == torch.bfloat16
                   for p in self.built.model.parameters())


# How a call reaches a peer: through Dynamo, whose guards look at the model and
# the arguments first, or directly. Eager mode is a rival of either kind.
DYNAMO, DIRECT = "through Dynamo", "without Dynamo"


@dataclass
class Peer:
    label: str
    make: Callable[[Job], Call]
    load: Callable[[], Any]  # its imports, which count as no compile time
    takes_custom: bool = True
    trains: bool = True
    starts: tuple[str, ...] = ("cold", "warm")
    is_timed: bool = True
    is_ours: bool = False
    ways: tuple[str, ...] = (DYNAMO,)  # (): no rival, a limit


def no_load() -> None:
    return None


def step(built: Built, f: Callable[..., Any]) -> Call:
    """A call of f: inference, or forward and backward with fresh gradients,
    towards a target: a norm's result has the same mean square whatever the
    weights are, so that alone has gradients of rounding errors."""
    if not built.is_training:
        return lambda: f(*built.args)
    with torch.no_grad():
        shape = built.model(*built.args).shape
    target = torch.randn(shape, generator=torch.Generator().manual_seed(1))

    def train() -> Any:
        built.model.zero_grad(set_to_none=True)
        loss = (f(*built.args).float() - target).square().mean()
        loss.backward()
        return [loss.detach(), *(p.grad for p in built.model.parameters()
                                 if p.grad is not None)]

    return train


# --- PyTorch ------------------------------------------------------------------


def eager(job: Job) -> Call:
    return step(job.built, job.built.model)


def load_inductor() -> None:
    import torch._dynamo
    import torch._inductor.compile_fx  # noqa: F401


def load_dynamo() -> None:
    import torch._dynamo
    import torch._functorch.aot_autograd  # noqa: F401


def compiled(backend: str, **more: Any) -> Callable[[Job], Call]:
    def make(job: Job) -> Call:
        return step(job.built, torch.compile(
            job.built.model, backend=backend, dynamic=False, **more))

    return make


@dataclass
class Around:
    """A call that is timed without its graph, which took `inside` seconds in
    all calls so far."""

    call: Call = lambda: None
    inside: float = 0.0

    def __call__(self) -> Any:
        return self.call()


def dynamos_part(job: Job) -> Call:
    """What Dynamo adds to a call of ours. Its guards look at objects that the
    graph's weights have driven out of the caches: behind a graph that takes no
    time they would find them there."""
    ours = torch._dynamo.lookup_backend("opgraft")
    run = Around()

    def backend(graph: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        call = ours(graph, inputs, options={"mode": "max-autotune"})

        def timed(*args: Any) -> Any:
            begun = time.perf_counter()
            results = call(*args)
            run.inside += time.perf_counter() - begun
            return results

        return timed

    run.call = step(job.built, torch.compile(
        job.built.model, backend=backend, dynamic=False))
    return run


def inductor_max(job: Job) -> Call:
    """max-autotune, with weights frozen for inference. That they are is
    checked: a silent failure would time the default again."""
    import torch._inductor.freezing as freezing

    options = dict(torch._inductor.list_mode_options("max-autotune"))
    frozen: list[int] = []
    original = freezing.freeze

    def counted(*args: Any, **kwargs: Any) -> Any:
        frozen.append(1)
        return original(*args, **kwargs)

    if job.built.is_training:
        return compiled("inductor", options=options)(job)
    freezing.freeze = counted
    run = compiled("inductor", options={**options, "freezing": True})(job)
    run()
    if not frozen:
        raise RuntimeError("Inductor did not freeze the graph's weights")
    job.notes["frozen"] = len(frozen)
    return run


# --- This engine --------------------------------------------------------------


def load_opgraft() -> None:
    load_dynamo()
    import opgraft  # noqa: F401
    import opgraft._graph.backend  # noqa: F401


def loops_of(stats: Any) -> dict[str, Any]:
    """Row programs, those that are machine code, the nodes in them, and the
    nodes in none although a row program has their operator, by reason; why
    others are interpreted."""
    programs = [p for g in stats.graphs for p in g.get("programs", ())]
    left = [p for p in programs if p.get("by", "interpreter") == "interpreter"]
    return {"programs": len(programs), "encoded": len(programs) - len(left),
            "interpreted": Counter(p.get("reason", "in no plan")
                                   for p in left),
            "fused": stats.fused_nodes,
            "unfused": Counter(a["reason"] for a in stats.unfused)}


def opgraft_mode(mode: str) -> Callable[[Job], Call]:
    def make(job: Job) -> Call:
        import opgraft

        f = torch.compile(job.built.model, backend="opgraft", dynamic=False,
                          options={"mode": mode})

        def stats() -> dict[str, Any]:
            found = opgraft.stats(f)
            return {"backend_s": sum(g["backend_ns"] for g in found.graphs)
                    / 1e9, "tune_s": sum(g.get("tune_ns", 0)
                                         for g in found.graphs) / 1e9,
                    "loops": loops_of(found)}

        job.notes["stats"] = stats
        return step(job.built, f)

    return make


def load_opgraft_frozen() -> None:
    load_opgraft()
    import torch.export._trace  # noqa: F401


def opgraft_frozen(job: Job) -> Call:
    import opgraft

    return step(job.built, opgraft.freeze(
        job.built.model, job.built.args, options={"mode": "max-autotune"}))


# --- ONNX Runtime -------------------------------------------------------------


def load_onnx() -> None:
    import onnxruntime  # noqa: F401


def plain(built: Built) -> torch.nn.Module:
    return built.model.eval()


def onnx_runtime(job: Job) -> Call:
    import onnxruntime as ort

    path = job.folder / "graph.onnx"
    if not path.exists():
        import onnxscript  # noqa: F401  what the exporter needs

        torch.onnx.export(plain(job.built), job.built.args, str(path),
                          dynamo=True, verbose=False)
    settings = ort.SessionOptions()
    settings.intra_op_num_threads = job.threads
    settings.inter_op_num_threads = 1
    settings.log_severity_level = 3
    session = ort.InferenceSession(str(path), settings,
                                   providers=["CPUExecutionProvider"])
    names = [i.name for i in session.get_inputs()]
    if len(names) != len(job.built.args):
        raise RuntimeError(f"the exported graph has {len(names)} inputs, "
                           f"expected {len(job.built.args)}")
    feed = {n: a.numpy() for n, a in zip(names, job.built.args)}
    return lambda: session.run(None, feed)


# --- OpenVINO -----------------------------------------------------------------


def load_openvino() -> None:
    import openvino  # noqa: F401
    import openvino.properties  # noqa: F401


def load_openvino_compile() -> None:
    load_dynamo()
    import openvino.torch  # noqa: F401


def openvino_settings(job: Job) -> dict[str, Any]:
    return {"INFERENCE_NUM_THREADS": job.threads, "NUM_STREAMS": 1,
            "INFERENCE_PRECISION_HINT": "bf16" if job.is_bf16 else "f32"}


def openvino_tensor(tensor: torch.Tensor) -> Any:
    import openvino as ov

    own = tensor.contiguous()
    if own.dtype == torch.bfloat16:
        return ov.Tensor(own.view(torch.int16).numpy(), ov.Shape(own.shape),
                         ov.Type.bf16)
    return ov.Tensor(own.numpy(), shared_memory=True)


def openvino_result(tensor: Any) -> torch.Tensor:
    import numpy
    import openvino as ov

    if tensor.element_type == ov.Type.bf16:
        return torch.from_numpy(
            tensor.data.view(numpy.int16).copy()).view(torch.bfloat16)
    return torch.from_numpy(tensor.data)


def openvino_model(job: Job) -> Any:
    """Decomposed where it has no rule for an operator as it stands: grouped
    heads of attention."""
    import openvino as ov

    program = torch.export.export(plain(job.built), job.built.args)
    try:
        return ov.convert_model(program)
    except ov.frontend.OpConversionFailure:
        job.notes["decomposed"] = True
        return ov.convert_model(program.run_decompositions())


def openvino(job: Job) -> Call:
    import openvino as ov

    path = job.folder / "graph.xml"
    if path.exists():
        model = ov.Core().read_model(str(path))
    else:
        model = openvino_model(job)
        ov.save_model(model, str(path), compress_to_fp16=False)
    ready = ov.Core().compile_model(model, "CPU", openvino_settings(job))
    if len(ready.inputs) != len(job.built.args):
        raise RuntimeError(f"the converted graph has {len(ready.inputs)} "
                           f"inputs, expected {len(job.built.args)}")
    request = ready.create_infer_request()
    for i, a in enumerate(job.built.args):
        request.set_input_tensor(i, openvino_tensor(a))
    count = len(ready.outputs)

    def run() -> Any:
        request.infer()
        return [openvino_result(request.get_output_tensor(i))
                for i in range(count)]

    return run


def openvino_compile(job: Job) -> Call:
    return step(job.built, torch.compile(
        job.built.model, backend="openvino", dynamic=False,
        options={"device": "CPU", "config": openvino_settings(job)}))


ALL = {
    "eager": Peer("eager", eager, no_load, starts=(), ways=(DYNAMO, DIRECT)),
    "aot_eager": Peer("a backend of 0 s", compiled("aot_eager"), load_dynamo,
                      starts=("cold",), is_timed=False),
    "dynamo": Peer("Dynamo's part", dynamos_part, load_opgraft, trains=False,
                   starts=(), ways=()),
    "inductor": Peer("Inductor", compiled("inductor"), load_inductor,
                     starts=("cold", "seeded", "warm")),
    "inductor_max": Peer("Inductor max", inductor_max, load_inductor),
    "onnxruntime": Peer("ONNX Runtime", onnx_runtime, load_onnx,
                        takes_custom=False, trains=False, ways=(DIRECT,)),
    "openvino": Peer("OpenVINO", openvino, load_openvino, takes_custom=False,
                     trains=False, ways=(DIRECT,)),
    "openvino_compile": Peer("OpenVINO, compile", openvino_compile,
                             load_openvino_compile, takes_custom=False,
                             trains=False),
    "opgraft": Peer("opgraft", opgraft_mode("reduce-overhead"), load_opgraft,
                    is_ours=True),
    "opgraft_max": Peer("opgraft max", opgraft_mode("max-autotune"),
                        load_opgraft, is_ours=True),
    "opgraft_frozen": Peer("opgraft frozen", opgraft_frozen,
                           load_opgraft_frozen, trains=False, is_ours=True,
                           ways=(DIRECT,)),
}
