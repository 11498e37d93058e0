# SPDX-License-Identifier: Apache-2.0
"""Graphs whose tensors are on CUDA: one CUDA graph for each, or segments of it.

All that is asked of torch.cuda for captures is `Cuda`, one for each device.
Nothing here is imported before a graph has a tensor on CUDA.
"""

from __future__ import annotations

import contextlib
import functools
import operator
import threading
import weakref
from typing import Any, Callable, Iterator

import torch
import torch.utils._pytree as pytree
from torch.fx import GraphModule, Node

from .._base.log import say
from . import captures

CAPTURING = ("reduce-overhead", "max-autotune")


class Cuda:
    """A CUDA device for captures (captures.Machine): streams, one memory pool
    for all captures, and one stream of our own, on which graphs are warmed up
    and captured."""

    def __init__(self, index: int) -> None:
        self.device = torch.device("cuda", index)
        self.index = index
        self.lock = threading.RLock()
        self.stream_now = torch._C._cuda_getCurrentRawStream
        self.is_taken = torch._C._cuda_isCurrentStreamCapturing
        self.copy = torch._foreach_copy_
        self.captured: Any = weakref.WeakSet()
        # torch refuses a pool that has no graph any more.
        self._pool = torch.cuda.graph_pool_handle()
        self._graphs: Any = weakref.WeakSet()
        self._side = torch.cuda.Stream(self.device)
        # Streams that replays ran on, whose work may use what is freed.
        self._used: dict[int, Any] = {}

    def samples(self) -> tuple[torch.Tensor, torch.Tensor]:
        """A plain tensor, made with and without autograd's keys."""
        with torch.inference_mode(False):
            plain = torch.empty(1, device=self.device)
        with torch.inference_mode():
            return plain, torch.empty(1, device=self.device)

    def wait(self, stream: int) -> None:
        """The current stream waits for all work that this one has now."""
        current = self._current()
        current.wait_stream(self._stream(stream))

    @contextlib.contextmanager
    def aside(self) -> Iterator[None]:
        """Work and memory of our own stream, behind all other work that uses
        memory of captures; the current stream goes on behind it."""
        with torch.cuda.device(self.device):
            current = self._current()
            for stream in list(self._used.values()):
                self._side.wait_stream(stream)
            with torch.cuda.stream(self._side):
                yield
            current.wait_stream(self._side)

    def hand_over(self, tensor: torch.Tensor) -> None:
        """Made aside, used by the current stream from now on."""
        if tensor.device.type == "cuda":
            tensor.record_stream(self._current())

    def capture(self, run: Callable[[list[Any]], Any], args: list[Any]
                ) -> tuple[Callable[[], None], Any]:
        """(what replays the work of run(args), what that returned). Raises
        what it or the end of the capture raises; then nothing is left of it."""
        graph = torch.cuda.CUDAGraph()
        if not self._graphs:
            self._pool = torch.cuda.graph_pool_handle()
        with self.aside():
            # Each thread has one of its own, which a capture cannot make.
            torch.cuda.current_blas_handle()
            try:
                graph.capture_begin(pool=self._pool,
                                    capture_error_mode="thread_local")
                results = run(args)
            except BaseException:
                self._abandon(graph)
                raise
            try:
                graph.capture_end()
            except BaseException:
                self._repair()
                raise
        self._graphs.add(graph)
        # torch's own method, without the Python one that looks for debuggers.
        base: Any = super(torch.cuda.CUDAGraph, graph)
        return base.replay, results

    def _current(self) -> Any:
        current = torch.cuda.current_stream(self.device)
        self._used[current.cuda_stream] = current
        return current

    def _stream(self, handle: int) -> Any:
        if handle not in self._used:
            self._used[handle] = (
                torch.cuda.ExternalStream(handle, self.device) if handle
                else torch.cuda.default_stream(self.device))
        return self._used[handle]

    def _abandon(self, graph: Any) -> None:
        try:
            graph.capture_end()
        except RuntimeError as error:
            say(f"a capture that failed ended with: {error}")
        self._repair()

    def _repair(self) -> None:
        """After a capture that ended with an error: torch may have left its
        allocator in the capture's pool, and its generator in the capture."""
        end = getattr(torch._C, "_cuda_endAllocateToPool", None)
        if end is not None:
            with contextlib.suppress(RuntimeError):
                end(self.index, self._pool)
        self._pool = torch.cuda.graph_pool_handle()
        generator = torch.cuda.default_generators[self.index]
        try:
            with torch.inference_mode(False):
                state = generator.get_state()
                torch.rand(1, device=self.device)
                generator.set_state(state)
        except RuntimeError as error:
            say(f"random numbers after a failed capture: {error}")
            # Captures that exist would go on with the old state.
            generator.graphsafe_set_state(generator.clone_state())
            for graph in list(self.captured):
                for number in graph.order():
                    graph.drop(number)


@functools.cache
def machine(device: torch.device) -> Any:
    index = device.index
    return Cuda(torch.cuda.current_device() if index is None else index)


# --- What can be captured -----------------------------------------------------


def obstacle(node: Node, device: torch.device) -> str | None:
    """Why the node cannot be part of a capture."""
    if node.op != "call_function":
        return None
    values = [node.meta.get("val"),
              *(n.meta.get("val") for n in node.all_input_nodes)]
    for v in pytree.tree_leaves(values):
        if isinstance(v, torch.Tensor) and not _is_on(v, device):
            return f"a tensor is on {v.device}, others on {device}"
        if isinstance(v, torch.Tensor) and v.layout is not torch.strided:
            return f"a tensor's layout is {v.layout}"
    target = node.target
    tags = getattr(target, "tags", ())
    if torch.Tag.cudagraph_unsafe in tags:
        return "the operator is tagged cudagraph_unsafe"
    if torch.Tag.data_dependent_output in tags:
        return "the host reads a result"
    name = getattr(target, "namespace", "")
    if name in ("_c10d_functional", "c10d", "opgraft_distributed"):
        return "it is a collective"
    if target is torch.ops.higher_order.with_effects:
        return "it has an effect on the host"
    if _has_mask(node):
        return "the count of what a mask selects depends on data"
    inner = node.args[0] if node.args else None  # of auto_functionalized
    if isinstance(inner, torch._ops.OpOverload) and (
            torch.Tag.cudagraph_unsafe in inner.tags):
        return "the operator is tagged cudagraph_unsafe"
    return None


def _is_on(value: torch.Tensor, device: torch.device) -> bool:
    return value.device.type == device.type and value.device.index in (
        None, device.index)


def _has_mask(node: Node) -> bool:
    base = getattr(node.target, "overloadpacket", None)
    aten = torch.ops.aten
    if base not in (aten.index, aten.index_put, aten.index_put_,
                    aten._unsafe_index, aten._unsafe_index_put):
        return False
    indices = node.args[1]
    return isinstance(indices, (list, tuple)) and any(
        isinstance(i, Node) and i.meta["val"].dtype in (torch.bool, torch.uint8)
        for i in indices)


def obstacles(gm: GraphModule, device: torch.device) -> dict[Node, str]:
    """By node. What takes a result out of such a node's goes with it."""
    found: dict[Node, str] = {}
    for node in gm.graph.nodes:
        reason = obstacle(node, device)
        if node.target is operator.getitem and node.args[0] in found:
            reason = found[node.args[0]]
        if reason is not None:
            found[node] = reason
    return found


def compile_whole(gm: GraphModule, device: torch.device, static: Any,
                  limit: int, name: str
                  ) -> tuple[Any, Callable[[Any], captures.Compiled]]:
    """A graph without obstacles. Raises NotImplementedError where C does not
    know tensors of this torch."""
    return captures.new(gm, machine(device), static, limit, name)
