# SPDX-License-Identifier: Apache-2.0
"""Stage 2 for Inductor: what it made of a graph, and what it did not.

Each function here looks at a finished lowering once; nothing runs when the
compiled code does.
"""

from __future__ import annotations

import functools
import inspect
import math
import time
from collections.abc import Callable
from typing import Any

from ._hook import Hook
from ._record import Recorder

# Whose operators are PyTorch's own: what Inductor does not generate code for is
# a fallback. Another's operator is called as its author wants, and is worth a
# word only where the call splits a fusion or made a copy.
_OWN = ("aten", "prims", "prim", "quantized", "quantized_decomposed", "mkldnn",
        "mkl", "onednn", "inductor", "extern_kernels", "_c10d_functional")
# Products of matrices and convolutions: a library's kernel is right for them.
# One of these words is part of the operator's name, or all of it.
_CONTRACTIONS = {"mm", "addmm", "bmm", "baddbmm", "addbmm", "mv", "addmv",
                 "matmul", "einsum", "linear", "qlinear", "bilinear",
                 "convolution", "conv", "conv1d", "conv2d", "conv3d", "qconv",
                 "qconv1d", "qconv2d", "qconv3d", "conv1x1"}
_PRODUCTS = {"dot", "vdot", "inner", "tensordot", "_trilinear"}
# What Inductor counts as external, and calls no kernel for.
_NO_CALL = ("MultiOutput", "MutationOutput", "AssertScalar", "DynamicScalar",
            "RandomSeeds", "DeviceCopy", "SetSourceTensorKernel",
            "SizeOutputBuffer", "UnbackedSymIntOutput")


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
    for node in lowering.scheduler.nodes:
        if node.is_extern():
            _look_at(recorder, id, node, lowering.scheduler.nodes)


def _look_at(recorder: Recorder, graph: int, node: Any, nodes: Any) -> None:
    operation = node.node
    op = _operator_name(operation)
    if not op or type(operation).__name__ in _NO_CALL or _is_contraction(op):
        return
    if not _is_own(op):
        if _splits(node, nodes):
            recorder.fell_back(
                graph, op, _stack(_origin(operation)),
                "a custom operator splits a fusion",
                f"the kernels before and after {op} could have been one")
        return
    from torch._inductor import ir

    is_fallback = isinstance(operation, ir.FallbackKernel)
    recorder.fell_back(
        graph, op, _stack(_origin(operation)),
        "Inductor has no lowering for this operator" if is_fallback else
        "a library's kernel, and none that Inductor generates",
        f"{op} runs as a call, and nothing fuses with it")


def _is_contraction(op: str) -> bool:
    parts = op.replace("::", ".").split(".")
    return _is_own(op) and len(parts) > 1 and (
        parts[1] in _PRODUCTS or bool(_CONTRACTIONS & set(
            parts[1].split("_"))))


def _is_own(op: str) -> bool:
    return op.replace("::", ".").split(".")[0] in _OWN


def _splits(node: Any, nodes: Any) -> bool:
    """Whether a generated kernel before the call and one after it run over
    equally many elements, so that they could be one kernel without it."""
    names = set(node.get_operation_names())
    kernels = [n for n in nodes if not n.is_extern() and _elements(n)]
    before = {_elements(n) for n in kernels
              if node.ancestors & n.get_operation_names()}
    after = {_elements(n) for n in kernels if n.ancestors & names}
    return bool(before & after)


def _elements(node: Any) -> str:
    """Over how many elements a kernel runs; "" where it has no size."""
    group = getattr(node, "group", None)
    if not group:
        return ""
    sizes = [n for part in group[1] for n in (
        part if isinstance(part, (tuple, list)) else (part,))]
    return str(math.prod(sizes))


def _decompose(recorder: Recorder, inner: Callable[..., Any]) -> Any:
    """decompose_auto_functionalized: a node that mutates gets its copies."""

    @functools.wraps(inner)
    def call(graph: Any) -> Any:
        if not recorder.is_paused:
            with recorder.cost():
                _report_copies(recorder, graph)
        return inner(graph)

    return call


def _report_copies(recorder: Recorder, graph: Any) -> None:
    import torch
    from torch._guards import CompileContext

    wrappers = (torch.ops.higher_order.auto_functionalized,
                torch.ops.higher_order.auto_functionalized_v2)
    for node in graph.nodes:
        copied = node.meta.get("only_clone_these_tensors")
        if node.target in wrappers and copied:
            op = node.args[0].name()
            recorder.fell_back(
                recorder.graph_of(str(CompileContext.current_compile_id())),
                op, _stack(node), "a custom operator works on copies",
                f"{op} changes {len(copied)} of its arguments, whose old "
                "values are still needed")


def _made(recorder: Recorder, inner: Callable[..., Any]) -> Any:
    """CompiledFxGraph.__init__: where CUDA graphs were asked for, and are
    refused, mostly in silence."""
    signature = inspect.signature(inner)

    @functools.wraps(inner)
    def call(self: Any, *args: Any, **kwargs: Any) -> None:
        given = signature.bind(self, *args, **kwargs).arguments
        is_asked = bool(given.get("cudagraphs"))
        inner(self, *args, **kwargs)
        if is_asked and not recorder.is_paused:
            with recorder.cost():
                _report_refusal(recorder, self)

    return call


def _report_refusal(recorder: Recorder, compiled: Any) -> None:
    from torch._guards import CompileContext

    info = compiled.cudagraph_info
    reasons = list(info.cudagraph_fail_reasons) if info else []
    if compiled.disabled_cudagraphs_reason:
        reasons.insert(0, compiled.disabled_cudagraphs_reason)
    if reasons:
        recorder.refused(
            recorder.graph_of(str(CompileContext.current_compile_id())),
            "CUDA graphs are refused", "\n".join(map(str, reasons)))


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
    Hook("copies", "torch._inductor.fx_passes.post_grad",
         "decompose_auto_functionalized", _decompose),
    Hook("CUDA graphs", "torch._inductor.output_code",
         "CompiledFxGraph.__init__", _made),
)
