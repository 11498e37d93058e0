# SPDX-License-Identifier: Apache-2.0
"""vLLM's CPU worker, which compiles the model when the KV cache is there: the
cache and the step's plan are inputs of the graph."""

from __future__ import annotations

from typing import Any

from vllm.v1.worker.cpu_worker import CPUWorker

from . import linear, moe, quantised


class Worker(CPUWorker):
    def __init__(self, *args: Any, **named: Any) -> None:
        for part in (linear, quantised, moe):  # where the model is made
            part.install()
        super().__init__(*args, **named)

    def determine_available_memory(self) -> int:
        """Runs the model once as it is written, to see what memory it takes."""
        parts = [m for m in self.model_runner.get_model().modules()
                 if not getattr(m, "do_not_compile", True)]
        for part in parts:
            part.do_not_compile = True
        try:
            return super().determine_available_memory()
        finally:
            for part in parts:
                part.do_not_compile = False

    def compile_or_warm_up_model(self) -> Any:
        self.model_runner.warming_up_model()
        return super().compile_or_warm_up_model()
