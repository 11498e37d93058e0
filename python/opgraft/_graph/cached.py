# SPDX-License-Identifier: Apache-2.0
"""A compiled graph as torch keeps it in a file (aot_compile).

What is kept is the graph of AOTAutograd's and how it was compiled: a plan is
made anew in the process that loads it, for its processor.
"""

from __future__ import annotations

from typing import Any, Callable

import torch
from torch._inductor.output_code import OutputCode

Compile = Callable[..., Callable[..., Any]]


class CachedGraph(OutputCode):
    """`how`: what `compile_one` takes behind the graph."""

    def __init__(self, gm: torch.fx.GraphModule, compile_one: Compile,
                 *how: Any) -> None:
        super().__init__()
        self._boxed_call = True  # wrappers copy what an instance has
        from torch.fx._graph_pickler import GraphPickler, Options

        for node in gm.graph.nodes:
            for key in [k for k in node.meta if k not in ("val", "stack_trace")]:
                if not _is_plain(node.meta[key]):
                    del node.meta[key]
        self._kept = GraphPickler.dumps(gm, Options(ops_filter=None))
        self._compile, self._how = compile_one, how
        self._run: Any = compile_one(gm, *how)

    def __call__(self, inputs: Any) -> Any:
        return self._run(inputs)

    def prepare_for_serialization(self) -> None:
        self._run = None

    def post_compile(self, example_inputs: Any, constants: Any,
                     graph_kwargs: Any) -> None:
        if self._run is not None:
            return
        from torch._subclasses import FakeTensorMode
        from torch.fx._graph_pickler import GraphPickler
        from torch.fx.experimental.symbolic_shapes import ShapeEnv

        gm = GraphPickler.loads(
            self._kept, FakeTensorMode(shape_env=ShapeEnv()))
        gm.recompile()
        self._run = self._compile(gm, *self._how)

    def set_triton_bundle(self, triton_bundle: Any) -> None:
        """There are no kernels of Triton's."""


def _is_plain(value: Any) -> bool:
    return isinstance(value, (str, int, float, bool, type(None)))
