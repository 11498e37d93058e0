# SPDX-License-Identifier: Apache-2.0
"""Stage 2 for Inductor: what it made of a graph, and what it did not.

Each function here looks at a finished lowering once; nothing runs when the
compiled code does.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

from ._hook import Hook
from ._record import Recorder

# Kernels that Inductor calls by choice, because a library's is better than
# what it would generate: no fallback.
_LIBRARY = ("convolution", "scaled_dot_product", "flash_attention", "mkldnn",
            "mkl", "onednn", "_linear", "mm", "addmm", "bmm", "baddbmm",
            "_embedding_bag", "lstm")


def _codegen(recorder: Recorder, inner: Callable[..., Any]) -> Any:
    """GraphLowering.codegen: the graph is scheduled when it returns."""

    @functools.wraps(inner)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if recorder.is_paused:
            return inner(self, *args, **kwargs)
        begin = time.perf_counter_ns()
        result = inner(self, *args, **kwargs)
        with recorder.cost():
            _report(recorder, self, time.perf_counter_ns() - begin)
        return result

    return call


def _report(recorder: Recorder, lowering: Any, ns: int) -> None:
    from torch._guards import CompileContext

    id = recorder.graph_of(str(CompileContext.current_compile_id()))
    kernels = externs = 0
    for node in lowering.scheduler.nodes:
        if node.is_extern():
            externs += 1
        elif not node.is_nop_or_none() if hasattr(node, "is_nop_or_none") \
                else type(node).__name__ != "NopKernelSchedulerNode":
            kernels += 1
    kind = "backward" if getattr(lowering, "is_backward", False) else (
        "inference" if getattr(lowering, "is_inference", False) else "forward")
    recorder.lowered(id, kind, len(lowering.orig_gm.graph.nodes), kernels,
                     externs, ns)
    for operation in lowering.operations:
        _look_at(recorder, id, operation)


def _look_at(recorder: Recorder, graph: int, operation: Any) -> None:
    from torch._inductor import ir

    if not isinstance(operation, ir.FallbackKernel):
        return
    op = _operator_name(operation)
    if not op or op.split("::")[-1].split(".")[0].startswith(_LIBRARY):
        return
    node = _origin(operation)
    recorder.fell_back(
        graph, op, _stack(node),
        "Inductor has no lowering for this operator",
        f"{op} runs as a call through the dispatcher, and nothing fuses "
        "with it",
    )


def _operator_name(operation: Any) -> str:
    op = getattr(operation, "op_overload", None)
    return str(op.name()) if op is not None and hasattr(op, "name") else str(
        getattr(operation, "python_kernel_name", "") or "")


def _origin(operation: Any) -> Any:
    node = getattr(operation, "origin_node", None)
    if node is None:
        node = next(iter(getattr(operation, "origins", None) or ()), None)
    return node


def _stack(node: Any) -> str:
    return (node.meta.get("stack_trace") or "") if node is not None else ""


HOOKS = (
    Hook("Inductor", "torch._inductor.graph", "GraphLowering.codegen",
         _codegen),
)
