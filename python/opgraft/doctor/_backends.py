# SPDX-License-Identifier: Apache-2.0
"""Stage 2: what each backend makes of a graph, and what it leaves to PyTorch.

Inductor and openxla have hooks of their own. The others that take parts out of
a graph (OpenVINO, ONNX Runtime) do it by PyTorch's partitioner, which is
watched for all of them. Ours keeps account itself (_graph/stats.py).
"""

from __future__ import annotations

import functools
import importlib
import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from . import _inductor, _openxla
from ._hook import Hook
from ._record import Recorder


class Backend(NamedTuple):
    needs: tuple[str, ...]  # modules; what is imported may register it
    device: str = ""  # where its tensors must be


BACKENDS = {
    "openxla": Backend(("torch_xla",), "xla"),
    "openvino": Backend(("openvino.torch",)),
    "onnxrt": Backend(("onnxruntime", "onnxscript")),
}


class Missing(Exception):
    """A backend that cannot be used here."""


def choose(name: str) -> None:
    """Lets torch.compile use this backend, whatever a script asks for, and
    puts new tensors where it wants them. Raises Missing."""
    row = BACKENDS.get(name, Backend(()))
    for module in row.needs:
        try:
            importlib.import_module(module)
        except ImportError as error:
            raise Missing(f"backend {name} needs {module}, which does not "
                          f"import here: {error}") from error
    known = torch._dynamo.list_backends(exclude_tags=())
    if name not in known:
        raise Missing(f"torch {torch.__version__} has no backend {name!r} "
                      f"here, but {', '.join(sorted(known))}")
    inner = torch.compile

    @functools.wraps(inner)
    def compile(model: Any = None, **kwargs: Any) -> Any:
        for word in ("mode", "options"):  # of the backend that was asked for
            kwargs.pop(word, None)
        return inner(model, **{**kwargs, "backend": name})

    vars(torch)["compile"] = compile
    if row.device:
        torch.set_default_device(row.device)


def _fuse(recorder: Recorder, inner: Callable[..., Any]) -> Any:
    """CapabilityBasedPartitioner.fuse_partitions."""

    @functools.wraps(inner)
    def call(self: Any, partitions: Any, *args: Any, **kwargs: Any) -> Any:
        graph = self.graph_module
        if not recorder.is_paused and not _openxla.is_marked(graph):
            with recorder.cost():
                _report(recorder, graph, partitions)
        return inner(self, partitions, *args, **kwargs)

    return call


def _report(recorder: Recorder, graph: Any, partitions: Any) -> None:
    from torch._guards import CompileContext

    id = recorder.graph_of(str(CompileContext.current_compile_id()))
    taken = {node for partition in partitions for node in partition.nodes}
    for partition in partitions:
        recorder.lowered(id, "forward", len(partition.nodes), 0, 0)
    for node in graph.graph.nodes:
        if node.op == "call_function" and node not in taken and \
                node.target is not operator.getitem:
            name = node.target.name() if hasattr(node.target, "name") else str(
                node.target)
            recorder.fell_back(
                id, name, node.meta.get("stack_trace") or "",
                "the backend does not take this operator",
                f"PyTorch runs {name}, outside the backend's graphs")


def _keep(recorder: Recorder, inner: Callable[..., Any]) -> Any:
    """Region._keep: each graph that backend "opgraft" has compiled."""

    @functools.wraps(inner)
    def call(self: Any, *args: Any, **kwargs: Any) -> None:
        inner(self, *args, **kwargs)
        if not recorder.is_paused:
            with recorder.cost():
                _report_own(recorder, self.graphs[-1].read())

    return call


def _report_own(recorder: Recorder, graph: dict[str, Any]) -> None:
    from torch._guards import CompileContext

    id = recorder.graph_of(str(CompileContext.current_compile_id()))
    nodes, native = graph.get("nodes", 0), graph.get("native", 0)
    recorder.lowered(id, graph["kind"], nodes, native, nodes - native,
                     graph["backend_ns"])
    for call in graph["fallbacks"]:
        name = call["operator"]
        recorder.fell_back(
            id, name, f'File "{call["file"]}", line {call["line"]}, in _'
            if call["line"] else "", f"{name} is left to PyTorch",
            call["reason"])


HOOKS = (*_inductor.HOOKS, *_openxla.HOOKS,
         Hook("partitions", "torch.fx.passes.infra.partitioner",
              "CapabilityBasedPartitioner.fuse_partitions", _fuse),
         Hook("opgraft", "opgraft._graph.stats", "Region._keep", _keep))
