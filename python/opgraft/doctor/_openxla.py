# SPDX-License-Identifier: Apache-2.0
"""Stage 2 for openxla: HLO graphs, and the operators that fall back to the CPU
when a graph is lowered, which is at its first call.

On an XLA device the eager function is LazyTensor tracing: its graphs are counted
beside those of the compiled one, by torch_xla's own metrics.
"""

from __future__ import annotations

import functools
import operator
import re
import sys
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from ._events import Writer
from ._hook import Hook
from ._places import absolute
from ._record import Entry, Recorder

_MARK = "opgraft graph"  # of a graph that openxla lowers: its id
_INSTRUCTION = re.compile(r"^\s+(?:ROOT )?%?[\w.-]+ = ", re.MULTILINE)


def is_marked(graph: Any) -> bool:
    return _MARK in graph.meta


def _helper(recorder: Recorder, inner: Callable[..., Any]) -> Any:
    """xla_backend_helper: only here the compiled frame is known."""

    @functools.wraps(inner)
    def call(model: Any, *args: Any, **kwargs: Any) -> Any:
        from torch._guards import CompileContext

        with recorder.cost():
            model.meta[_MARK] = recorder.graph_of(
                str(CompileContext.current_compile_id()))
        return inner(model, *args, **kwargs)

    return call


def _run_node(recorder: Recorder, inner: Callable[..., Any]) -> Any:
    """UnsupportedNodesCollector.run_node: each operator is tried once."""

    @functools.wraps(inner)
    def call(self: Any, node: Any) -> Any:
        recorder.lowering = self.module.meta.get(_MARK, 0)
        count = len(self._unsupported_nodes)
        result = inner(self, node)
        if len(self._unsupported_nodes) > count and not recorder.is_paused:
            with recorder.cost():
                _report(recorder, node)
        return result

    return call


def _report(recorder: Recorder, node: Any) -> None:
    from torch_xla.debug import metrics

    if node.op != "call_function" or node.target is operator.getitem:
        return
    counters = metrics.executed_fallback_ops()
    name = counters[0] if counters else str(node.target)
    recorder.fell_back(
        recorder.lowering, name, node.meta.get("stack_trace") or "",
        "openxla has no lowering for this operator" if counters else
        f"a tensor that is not on the XLA device: {node.target}",
        f"{node.target} runs on the CPU ({', '.join(counters)}), outside the HLO "
        "graphs" if counters else
        f"{node.target} takes or gives a tensor of another device, outside the "
        "HLO graphs")


def _extract(recorder: Recorder, inner: Callable[..., Any]) -> Any:
    """extract_graph_helper: one HLO graph. A graph of symbolic sizes comes
    whole and again for each size, others in the parts that fallbacks leave."""

    @functools.wraps(inner)
    def call(model: Any, *args: Any, **kwargs: Any) -> Any:
        recorder.lowering = model.meta.get(_MARK, recorder.lowering)
        return inner(model, *args, **kwargs)

    return call


def _warm_up(recorder: Recorder, inner: Callable[..., Any]) -> Any:
    """_xla_warm_up_cache, which compiles what hangs on the tensors."""

    @functools.wraps(inner)
    def call(tensors: Any, devices: Any) -> Any:
        text = ""
        if not recorder.is_paused:
            with recorder.cost():
                text = sys.modules["torch_xla"]._XLAC._get_xla_tensors_hlo(
                    tensors)
        before = _compiles()[1]
        result = inner(tensors, devices)
        if not recorder.is_paused:
            recorder.lowered(
                recorder.lowering, "forward", len(_INSTRUCTION.findall(text)),
                0, text.count(" custom-call("), _compiles()[1] - before)
        return result

    return call


HOOKS = (
    Hook("openxla", "torch._dynamo.backends.torchxla", "xla_backend_helper",
         _helper),
    Hook("fallbacks", "torch_xla._dynamo.dynamo_bridge",
         "UnsupportedNodesCollector.run_node", _run_node),
    Hook("HLO", "torch_xla._dynamo.dynamo_bridge", "extract_graph_helper",
         _extract),
    Hook("HLO compiles", "torch_xla", "_XLAC._xla_warm_up_cache", _warm_up),
)

# --- Metrics ------------------------------------------------------------------


def settle() -> None:
    """Waits for what a call only put into a queue."""
    xla = sys.modules.get("torch_xla")
    if xla is not None:
        xla.sync()
        xla.core.xla_model.wait_device_ops()


def _metric(name: str) -> tuple[int, int]:
    """How often something was timed, and the nanoseconds of all."""
    from torch_xla.debug import metrics

    data = metrics.metric_data(name)
    return (data[0], int(data[1])) if data else (0, 0)


def _compiles() -> tuple[int, int]:
    return _metric("CompileTime")


def _counts() -> tuple[int, int]:
    """HLO graphs that ran, and operators that fell back."""
    from torch_xla.debug import metrics

    return _metric("ExecuteTime")[0], sum(
        metrics.counter_value(name) for name in metrics.counter_names()
        if name.startswith("aten::"))


def write_compiles(writer: Writer) -> None:
    """What the script compiled, by whichever way."""
    if "torch_xla" in sys.modules:
        settle()
        count, ns = _compiles()
        writer.line("hlo", compiles=count, compile_ns=ns)


def write_counts(writer: Writer, entry: Entry, mode: str,
                 call: Callable[[], Any]) -> None:
    """What one step runs, once all is compiled."""
    if "torch_xla" not in sys.modules:
        return
    call()
    graphs, left = _counts()
    call()
    now = _counts()
    writer.line("hlo", entry=entry.id, mode=mode, graphs=now[0] - graphs,
                fallbacks=now[1] - left)


def write_spent(recorder: Recorder, writer: Writer, entry: Entry,
                events: Any) -> None:
    """What a step spends in operators that fell back, the wait for the graph
    before them included. Sites of one operator share where a step does not run
    each of them once."""
    if "torch_xla" not in sys.modules:
        return
    sites = defaultdict(list)
    for graph, place, op in recorder.left_out:
        region = recorder.regions.get(graph)
        if region is not None and region.entry == entry.id:
            sites[op].append(place)
    for op, places in sites.items():
        times = [int(e.cpu_time_total * 1000) for e in events
                 if e.name == op and not _is_inside(e)]
        if len(times) != len(places):
            times = [sum(times) // len(places)] * len(places)
        for place in dict.fromkeys(places):
            own = [ns for p, ns in zip(places, times) if p == place]
            writer.line("spent", entry=entry.id, file=absolute(place.file),
                        line=place.line, what=op, ns=sum(own),
                        calls=len(own))


def _is_inside(event: Any) -> bool:
    """A fallback calls the operator of the same name on the CPU."""
    parent = event.cpu_parent
    while parent is not None and parent.name != event.name:
        parent = parent.cpu_parent
    return parent is not None
